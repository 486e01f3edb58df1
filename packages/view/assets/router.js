/** Addresses of views: `#/run/ID/rollouts?step=3`. */

/** @typedef {{ path: readonly string[], query: Record<string, string> }} Route */

/** @returns {Route} the address that is open */
export const currentRoute = () => {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split(/\?(.*)/s)
  return {
    path: path
      .split('/')
      .filter((part) => part !== '')
      .map(decoded),
    query: Object.fromEntries(new URLSearchParams(query)),
  }
}

/** @param {string} part */
const decoded = (part) => {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/**
 * Makes the query of an address. Fields without a value are left out.
 *
 * @param {Record<string, unknown>} query
 */
export const queryOf = (query) => {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== '') parameters.set(name, String(value))
  }
  const text = parameters.toString()
  return text === '' ? '' : `?${text}`
}

/**
 * Makes an address.
 *
 * @param {readonly string[]} path
 * @param {Record<string, unknown>} [query]
 */
export const address = (path, query = {}) => `#/${path.map(encodeURIComponent).join('/')}${queryOf(query)}`

/** @param {string} hash as from `address` */
export const go = (hash) => {
  location.hash = hash
}

/**
 * Changes the address without opening it again, so that a reload or a copied link shows the same.
 *
 * @param {string} hash
 */
export const keepAddress = (hash) => history.replaceState(history.state, '', hash)
