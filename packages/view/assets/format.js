/** Numbers, times and names as the page writes them. */

/**
 * Writes a number with four significant digits at most.
 *
 * @param {number | null | undefined} value
 */
export const number = (value) => {
  if (value === null || value === undefined || Number.isNaN(value)) return '–'
  if (!Number.isFinite(value)) return String(value)
  if (value === 0) return '0'
  const size = Math.abs(value)
  if (size >= 1e6) return `${trim((value / 1e6).toFixed(2))} M`
  if (size >= 10_000) return Math.round(value).toLocaleString('en-US')
  if (size < 0.001) return value.toExponential(1)
  return trim(size >= 100 ? value.toFixed(1) : size >= 1 ? value.toFixed(2) : value.toFixed(3))
}

/** @param {string} text */
const trim = (text) => (text.includes('.') ? text.replace(/\.?0{1,3}$/, '') : text)

/** @param {number | null | undefined} value */
export const whole = (value) =>
  value === null || value === undefined ? '–' : Math.round(value).toLocaleString('en-US')

/** @param {number | null | undefined} value a share between 0 and 1 */
export const percent = (value) => (value === null || value === undefined ? '–' : `${(100 * value).toFixed(1)} %`)

/** @param {number | null | undefined} value */
export const signed = (value) => (value > 0 ? `+${number(value)}` : number(value))

/** @param {number} seconds */
export const duration = (seconds) => {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`
  return `${(seconds / 3600).toFixed(1)} h`
}

/** @param {number} bytes */
export const bytes = (bytes) => {
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(0)} kB`
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(0)} MB` : `${(bytes / 1e9).toFixed(2)} GB`
}

const day = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' })

/** @param {string | number | null | undefined} time */
export const date = (time) => (time === null || time === undefined ? '–' : day.format(new Date(time)))

/** @param {string | number | null | undefined} time */
export const ago = (time) => {
  if (time === null || time === undefined) return '–'
  const seconds = (Date.now() - new Date(time).getTime()) / 1000
  if (seconds < 90) return 'now'
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h ago`
  return `${Math.round(seconds / 86_400)} d ago`
}

/**
 * Flattens nested records to dotted paths.
 *
 * @param {unknown} value
 * @param {string} [path]
 * @returns {[string, unknown][]}
 */
export const flat = (value, path = '') =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0
    ? Object.entries(value).flatMap(([name, each]) => flat(each, path === '' ? name : `${path}.${name}`))
    : [[path, value]]

/** @param {unknown} value a setting */
export const setting = (value) => (typeof value === 'string' ? value : JSON.stringify(value ?? null))
