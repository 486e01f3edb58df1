/** Dates as Python's `strftime` writes them in the C locale. */
import { TemplateError } from './templateError.js'

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
const MONTHS = [
  ...['January', 'February', 'March', 'April', 'May', 'June'],
  ...['July', 'August', 'September', 'October', 'November', 'December'],
]

const padded = (value: number, width = 2): string => String(value).padStart(width, '0')

const dayOfYear = (date: Date): number =>
  Math.floor((date.getTime() - Date.UTC(date.getUTCFullYear(), 0, 1)) / 86_400_000) + 1

/** The text of each directive. All fields are in UTC. */
const DIRECTIVES: Readonly<Record<string, (date: Date) => string>> = {
  a: (date) => DAYS[date.getUTCDay()]!.slice(0, 3),
  A: (date) => DAYS[date.getUTCDay()]!,
  b: (date) => MONTHS[date.getUTCMonth()]!.slice(0, 3),
  B: (date) => MONTHS[date.getUTCMonth()]!,
  d: (date) => padded(date.getUTCDate()),
  '-d': (date) => String(date.getUTCDate()),
  e: (date) => String(date.getUTCDate()).padStart(2, ' '),
  m: (date) => padded(date.getUTCMonth() + 1),
  '-m': (date) => String(date.getUTCMonth() + 1),
  y: (date) => padded(date.getUTCFullYear() % 100),
  Y: (date) => String(date.getUTCFullYear()),
  H: (date) => padded(date.getUTCHours()),
  '-H': (date) => String(date.getUTCHours()),
  I: (date) => padded(date.getUTCHours() % 12 || 12),
  '-I': (date) => String(date.getUTCHours() % 12 || 12),
  M: (date) => padded(date.getUTCMinutes()),
  S: (date) => padded(date.getUTCSeconds()),
  f: (date) => padded(date.getUTCMilliseconds() * 1000, 6),
  p: (date) => (date.getUTCHours() < 12 ? 'AM' : 'PM'),
  j: (date) => padded(dayOfYear(date), 3),
  w: (date) => String(date.getUTCDay()),
  u: (date) => String(date.getUTCDay() || 7),
  F: (date) => strftime(date, '%Y-%m-%d'),
  T: (date) => strftime(date, '%H:%M:%S'),
  R: (date) => strftime(date, '%H:%M'),
  D: (date) => strftime(date, '%m/%d/%y'),
  c: (date) => strftime(date, '%a %b %e %H:%M:%S %Y'),
  x: (date) => strftime(date, '%m/%d/%y'),
  X: (date) => strftime(date, '%H:%M:%S'),
  Z: () => '',
  z: () => '',
  '%': () => '%',
}

/**
 * Formats a time like Python's `strftime`, in UTC. As for a Python date without time zone, `%Z` is
 * empty.
 *
 * Errors   throws TemplateError for an unknown directive.
 *
 * @example
 * strftime(new Date(0), '%d %b %Y') // '01 Jan 1970'
 */
export const strftime = (date: Date, format: string): string =>
  format.replace(/%(-?.|$)/gs, (whole, directive: string) => {
    const write = Object.hasOwn(DIRECTIVES, directive) ? DIRECTIVES[directive] : undefined
    if (write === undefined) throw new TemplateError(`strftime: unknown directive '${whole}'`)
    return write(date)
  })
