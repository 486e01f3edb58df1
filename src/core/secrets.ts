/** Redacts secrets in output. All patterns run in linear time, because they read untrusted text. */

const HIDDEN = '***'

/** Text up to the end of a URL's user info. It matches everywhere, so no text is read twice. */
const UP_TO_AT = /[^\s"'@]+@?/g

/** The start of a URL's user info: a user name, or a user name and a password of any characters. */
const USER_INFO = /:\/\/(?:[^/?#]*@|[^/?#:]+:)/

/** Replaces the user info at the end of the text, if present. */
const withoutUserInfo = (run: string): string => {
  const start = run.endsWith('@') ? run.search(USER_INFO) : -1
  return start < 0 ? run : `${run.slice(0, start)}://${HIDDEN}@`
}

/**
 * Patterns of secrets: tokens after their scheme, keys with a known prefix, keys in queries and
 * JSON.
 */
const FORMS: readonly (readonly [RegExp, string])[] = [
  // Ordinary words have no digits or capitals, or are short.
  [/\b(Bearer)\s+[A-Za-z0-9\-._~+/]{6,}=*/gi, `$1 ${HIDDEN}`],
  [/\b(Bearer|Basic)\s+(?=[^\s"']*[0-9A-Z=])[A-Za-z0-9\-._~+/]+=*/g, `$1 ${HIDDEN}`],
  [/\b(sk|hf|pk|rk|gsk|xai|nvapi|ghp|glpat)([-_])[A-Za-z0-9_-]{6,}/g, `$1$2${HIDDEN}`],
  [/([?&](?:api[-_]?key|access[-_]?token|auth[-_]?token|token|key|password)=)[^&\s"'#]+/gi, `$1${HIDDEN}`],
  [
    /("(?:api[-_]?key|access[-_]?token|auth[-_]?token|authorization|password)"\s*:\s*")(?:[^"\\]|\\.)*/gi,
    `$1${HIDDEN}`,
  ],
]

/** Returns the forms in which a secret may occur in a text: plain, in a URL, in JSON. */
const spellings = (secret: string): readonly string[] => [
  secret,
  encodeURIComponent(secret.replaceAll(/\p{Surrogate}/gu, '\ufffd')),
  JSON.stringify(secret).slice(1, -1),
]

/**
 * Replaces the given secrets in a text by `***`, in any encoding. Nothing else is changed.
 *
 * Cost     one pass for each secret.
 *
 * @example
 * hide('the word is swordfish', ['swordfish']) // 'the word is ***'
 */
export const hide = (text: string, secrets: readonly string[]): string => {
  const given = [...new Set(secrets.filter((secret) => secret !== '').flatMap(spellings))].sort(
    (a, b) => b.length - a.length,
  )
  return given.reduce((left, secret) => left.replaceAll(secret, HIDDEN), text)
}

/**
 * Replaces secrets in a text by `***`: the given ones, in any encoding, and texts that look like
 * secrets: passwords in URLs, `Bearer` and `Basic` tokens, keys that start with `sk-` or `hf_`, and
 * keys in queries and JSON.
 *
 * Cost     O(length of the text) for each secret and pattern, for every text.
 *
 * @example
 * redact('at http://ann:pass@host with Bearer abc.def', ['host']) // 'at http://***@*** with Bearer ***'
 */
export const redact = (text: string, secrets: readonly string[] = []): string =>
  FORMS.reduce(
    (left, [form, replacement]) => left.replace(form, replacement),
    hide(text, secrets).replace(UP_TO_AT, withoutUserInfo),
  )

/**
 * Returns at most the first `length` characters of a text, without secrets or a part of one at the
 * end.
 *
 * @example
 * excerpt('the key is sk-1234567890', 14) // 'the key is sk-…'
 */
export const excerpt = (text: string, length: number, secrets: readonly string[] = []): string => {
  const clean = redact(text, secrets)
  return clean.length > length ? `${clean.slice(0, length)}…` : clean
}
