/**
 * Where owned values come from, for finding leaks. Off unless asked for: then every `own` remembers who called it, and a value that is
 * garbage before its release is reported. For the files of the engine.
 */

/** A value that is owned, or was collected without having been released: what `liveOwned` lists. */
export interface OwnedSite {
  /** The first line outside of this package that led to `own`. */
  readonly site: string
  /** How many tensors it keeps alive. */
  readonly tensors: number
}

/** Settings of the debug mode of ownership. */
export interface OwnershipDebugging {
  /** What is told of a value that was collected without a release; `console.warn` says it otherwise. */
  readonly report?: (leak: OwnedSite) => void
}

/** Lines of a stack to look through for one of the caller's. */
const FRAMES = 60

/** The folder of this package's code: `src`, or `dist` once it is built. */
const home = decodeURIComponent(new URL('..', import.meta.url).pathname)

const isForeign = (place: string): boolean => place.startsWith('node:') || place.includes('/node_modules/')

/** Where a line of a stack points: `file:line:column`. */
const placeOf = (line: string): string | undefined => {
  const place = /\(?((?:file:\/\/|node:|\/|[A-Za-z]:[\\/])[^()]*:\d+:\d+)\)?$/.exec(line.trim())?.[1]
  return place === undefined ? undefined : decodeURIComponent(place.replace(/^file:\/\//, '')).replaceAll('\\', '/')
}

/**
 * The first line outside of this package in a stack trace; the first line of all if there is none, and nothing for a trace without lines.
 *
 * @example
 * siteIn('Error\n    at f (file:///home/me/app.ts:3:7)\n    at node:internal/x:1:1') // '/home/me/app.ts:3:7'
 */
export const siteIn = (stack: string): string | undefined => {
  const places = stack.split('\n').flatMap((line) => placeOf(line) ?? [])
  return places.find((place) => !place.startsWith(home) && !isForeign(place)) ?? places[0]
}

const callSite = (): string => {
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = FRAMES
  const { stack } = new Error()
  Error.stackTraceLimit = limit
  return siteIn(stack ?? '') ?? 'an unknown place'
}

const warn = ({ site, tensors }: OwnedSite): void => {
  console.warn(`own: a value with ${tensors} tensors, owned at ${site}, was collected without a release`)
}

const start = ({ report = warn }: OwnershipDebugging = {}): FinalizationRegistry<OwnedSite> =>
  new FinalizationRegistry((leak) => report(leak))

// One switch for the process: what is owned is global, as tensors are.
let leaks: FinalizationRegistry<OwnedSite> | undefined = /^(1|true|on)$/i.test(process.env.TANDEM_DEBUG_OWNERSHIP ?? '')
  ? start()
  : undefined

const live = new Set<OwnedSite>()

/**
 * Turns the debug mode of ownership on or off, for values that are owned from now on. While it is on, use after release, a second
 * release and values that were never released name the line that owned them. The environment variable TANDEM_DEBUG_OWNERSHIP=1
 * turns it on from the start.
 *
 * Effects  a switch of the process. When it is on, a value that is collected without a release is reported, some time after.
 * Cost     a stack trace for each `own` when it is on; nothing when it is off.
 *
 * @example
 * debugOwnership('off') // undefined
 */
export const debugOwnership = (mode: 'on' | 'off', options: OwnershipDebugging = {}): void => {
  leaks = mode === 'on' ? start(options) : undefined
}

/**
 * The values that are owned at this moment and were owned in debug mode, oldest first: where, and how many tensors.
 *
 * @example
 * liveOwned() // []
 */
export const liveOwned = (): readonly OwnedSite[] => [...live]

/** What is known of an owned value. */
export interface OwnedRecord {
  /** For messages: where the value was owned, or nothing when the debug mode was off. */
  readonly origin: string
  readonly forget: () => void
}

const NOTHING: OwnedRecord = { origin: '', forget: () => {} }

/** Remembers, in debug mode, an owned value by the function that releases it: once that is garbage, nothing can release it. */
export const recordOwned = (release: () => void, tensors: number): OwnedRecord => {
  const registry = leaks
  if (registry === undefined) return NOTHING
  const record: OwnedSite = { site: callSite(), tensors }
  live.add(record)
  registry.register(release, record, record)
  return {
    origin: ` (owned at ${record.site})`,
    forget: () => {
      live.delete(record)
      registry.unregister(record)
    },
  }
}
