/** Redacts secrets in output. All patterns run in linear time, because they read untrusted text. */

const HIDDEN = '***'

/** Text without spaces and quotes, in which user info can stand. */
const RUN = /[^\s"']+/g

/** Returns the end of the user info of a URL after its `://`: at its `@`, or -1 without one. */
const userInfoEnd = (rest: string): number => {
  const end = rest.search(/[/?#]/)
  const authority = end < 0 ? rest : rest.slice(0, end)
  const at = authority.lastIndexOf('@')
  return at < 0 && authority.includes(':') ? rest.lastIndexOf('@') : at // a password may have any characters
}

/** The end of a name, and the beginning of a host; not a package or an image with its version. */
const NAME = /(?<![\w.%+~-])[\w.%+~-]+$/
const HOST = /^@(?!sha\d+:)[A-Za-z[]/

/** Hides `name:password` before the last `@` of a text without a URL. */
const withoutLogin = (run: string): string => {
  const [colon, at] = [run.indexOf(':'), run.lastIndexOf('@')]
  const name = NAME.exec(run.slice(Math.max(0, colon - 100), Math.max(0, colon)))?.[0] ?? ''
  if (colon >= at || name === '' || name === 'npm' || name === 'mailto' || !HOST.test(run.slice(at, at + 12)))
    return run
  return `${run.slice(0, colon - name.length)}${HIDDEN}${run.slice(at)}`
}

/** Hides the user info of every URL in a text without spaces. */
const withoutUserInfo = (run: string): string => {
  if (!run.includes('@')) return run
  if (!run.includes('://')) return withoutLogin(run)
  let [clean, rest] = ['', run]
  for (let start = rest.indexOf('://'); start >= 0; start = rest.indexOf('://')) {
    clean += rest.slice(0, start + 3)
    rest = rest.slice(start + 3)
    const end = userInfoEnd(rest)
    if (end < 0) continue
    clean += HIDDEN
    rest = rest.slice(end)
  }
  return clean + rest
}

/** Beginnings of keys by their makers. */
const PREFIXES = 'sk|hf|pk|rk|gsk|xai|nvapi|ghp|gho|ghu|ghs|github_pat|glpat|tml|xoxb|xoxp'

/** Names of headers and fields with a key. */
const FIELDS =
  '(?:x-)?api[-_]?key|access[-_]?(?:key|token)|auth[-_]?token|secret[-_]?(?:access[-_]?)?key|client[-_]?secret|x-auth-token|(?:proxy-)?authorization|password'

/**
 * Patterns of secrets: tokens after their scheme, keys with a known prefix, and values of headers,
 * variables and fields of queries and JSON whose names are those of keys.
 */
const FORMS: readonly (readonly [RegExp, string])[] = [
  // Ordinary words have no digits or capitals, or are short.
  [/\b(Bearer)\s+[A-Za-z0-9\-._~+/]{6,}=*/gi, `$1 ${HIDDEN}`],
  [/\b(Bearer|Basic)\s+(?=[^\s"']*[0-9A-Z=])[A-Za-z0-9\-._~+/]+=*/g, `$1 ${HIDDEN}`],
  [new RegExp(`\\b(${PREFIXES})([-_])[A-Za-z0-9_-]{6,}`, 'g'), `$1$2${HIDDEN}`],
  [/\b(AKIA|ASIA|AIza)[A-Za-z0-9_-]{12,}/g, `$1${HIDDEN}`],
  [/(?<![\w-])(eyJ)[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]{8,}/g, `$1${HIDDEN}`],
  [/([?&](?:api[-_]?key|access[-_]?token|auth[-_]?token|token|key|password)=)[^&\s"'#]+/gi, `$1${HIDDEN}`],
  [new RegExp(`("(?:${FIELDS})"\\s*:\\s*")(?:[^"\\\\]|\\\\.)*`, 'gi'), `$1${HIDDEN}`],
  [new RegExp(`\\b((?:${FIELDS})[:=] ?)(?!Bearer |Basic |\\*)[^\\s"',;&}]+`, 'gi'), `$1${HIDDEN}`],
  [/\b([A-Z][A-Z0-9_]*_(?:KEY|TOKEN|SECRET|PASSWORD)"?[:=] ?"?)(?!\*)[^\s"',;&}]+/g, `$1${HIDDEN}`],
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
 * keys in headers, variables, queries and JSON.
 *
 * Cost     O(length of the text) for each secret and pattern, for every text.
 *
 * @example
 * redact('at http://ann:pass@host with Bearer abc.def', ['host']) // 'at http://***@*** with Bearer ***'
 */
export const redact = (text: string, secrets: readonly string[] = []): string =>
  FORMS.reduce(
    (left, [form, replacement]) => left.replace(form, replacement),
    hide(text, secrets).replace(RUN, withoutUserInfo),
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
