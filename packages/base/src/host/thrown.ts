/** Exceptions that the user's functions throw: their text, their place, and warnings about them. */
import { namedMessage } from '../failure.js'
import { environmentVariable, warn } from './host.js'

/** The variable with which errors have their whole stack. The flag `--verbose` sets it. */
export const VERBOSE = 'TANDEM_VERBOSE'

/** The root of this repository. Published packages lie in `node_modules`. */
const ROOT = new URL('../../../../', import.meta.url)

/** The folders of Tandem's sources and of what they are compiled to, below the root. */
const SOURCES = /^(packages[\\/][^\\/]+[\\/])?(src|dist)[\\/]/

const isOwnSource = (file: string): boolean =>
  [ROOT.href, ROOT.pathname, decodeURIComponent(ROOT.pathname)].some(
    (root) => file.startsWith(root) && SOURCES.test(file.slice(root.length)),
  )

/** Most frames of a stack that are read, and the longest one. */
const READ = { frames: 64, length: 1024 } as const

/** Returns `true` for the URL or the path of a file of Tandem, of a package or of Node. */
export const isOwnFile = (file: string): boolean =>
  isOwnSource(file) || /^(?:node|data|blob|native):/.test(file) || /[\\/]node_modules[\\/]/.test(file)

/** Returns the path of a file that a frame names as a URL. */
const pathOf = (file: string): string => (file.startsWith('file://') ? decodeURI(new URL(file).pathname) : file)

/** Returns `FILE:LINE:COLUMN` of a frame, or `undefined` if the frame has no file. */
const placeOf = (frame: string): { readonly file: string; readonly at: string } | undefined => {
  const inner = frame.endsWith(')')
    ? frame.slice(frame.lastIndexOf('(') + 1, -1)
    : frame.replace(/^.*?(?:at (?:async )?|@)/, '')
  const [, given, at] = /^(.+?)(:\d+:\d+)$/.exec(inner.trim()) ?? []
  if (given === undefined || at === undefined || !/[\\/]/.test(given)) return undefined
  return { file: given, at }
}

/**
 * Returns the first place of an error's stack outside of Tandem and of packages: the line of the
 * user's program that threw, or called what threw.
 */
export const userPlace = (error: unknown): string | undefined => {
  if (!(error instanceof Error) || typeof error.stack !== 'string') return undefined
  for (const line of error.stack.split('\n', READ.frames)) {
    const place = line.length > READ.length ? undefined : placeOf(line.trim())
    if (place !== undefined && !isOwnFile(place.file)) return `${pathOf(place.file)}${place.at}`
  }
  return undefined
}

/**
 * Formats an exception of the user's code: its class, its message and its place, as in
 * `TypeError: x is not a function (at /home/me/reward.ts:3:9)`. With `TANDEM_VERBOSE=1`, the whole
 * stack follows.
 */
export const thrownText = (error: unknown): string => {
  const place = userPlace(error)
  const text = place === undefined ? namedMessage(error) : `${namedMessage(error)} (at ${place})`
  const isWhole = environmentVariable(VERBOSE) === '1' && error instanceof Error && error.stack !== undefined
  return isWhole ? `${text}\n${error.stack}` : text
}

/** Places of which a warning was printed, so that it is not repeated. */
const warned = new Set<string>()

const MOST_WARNINGS = 100

/** Prints an exception as a warning, once for each place. */
export const warnThrown = (what: string, error: unknown): void => {
  const place = `${what} ${userPlace(error) ?? namedMessage(error)}`
  if (warned.has(place) || warned.size >= MOST_WARNINGS) return
  warned.add(place)
  warn(`${what} threw ${thrownText(error)}; it is reported once for each place`)
}

/**
 * Returns a callback that cannot fail its caller: what the given one throws, or rejects with, is a
 * warning. For observers, loggers and other functions that only receive.
 */
export const harmless =
  <A extends readonly unknown[]>(what: string, f: (...args: A) => unknown): ((...args: A) => void) =>
  (...args) => {
    try {
      const returned = f(...args)
      if (returned instanceof Promise) returned.catch((error: unknown) => warnThrown(what, error))
    } catch (error) {
      warnThrown(what, error)
    }
  }
