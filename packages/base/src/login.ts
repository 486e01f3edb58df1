/** The user and password in the address of a server. */

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text // a percent sign that does not start an escape is literal
  }
}

/** Encodes text as UTF-8 in base64. */
const base64 = (text: string): string =>
  btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(''))

/** An address without a login, and the header that the login is sent in. */
interface SplitLogin {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  /** Texts to hide in messages. */
  readonly secrets: readonly string[]
}

/**
 * Splits the user and password of an address from it. Clients of HTTP send them as Basic
 * authorization, and `fetch` refuses addresses that have them.
 *
 * @example
 * splitLogin(new URL('http://ann:pass@host/v1')).headers.authorization // 'Basic YW5uOnBhc3M='
 */
export const splitLogin = (given: URL): SplitLogin => {
  const { username, password } = given
  if (username === '' && password === '') return { url: given, headers: {}, secrets: [] }
  const url = new URL(given)
  url.username = ''
  url.password = ''
  const user = `${decoded(username)}:${decoded(password)}`
  const basic = base64(user)
  const secrets = [basic, decoded(password), password, user].filter((secret) => secret !== '')
  return { url, headers: { authorization: `Basic ${basic}` }, secrets }
}
