/**
 * A debug mode for finding leaks of owned values, off by default. Every `own` records its caller,
 * and a value that is garbage collected before its release is reported. Internal to the engine.
 */
import { environmentVariable, isOwnFile } from '@tandem-rl/base/host'

/** An owned value, or one that was collected without a release, as `liveOwned` lists it. */
export interface OwnedSite {
  /** The first stack line outside of Tandem that led to `own`. */
  readonly site: string
  /** The number of tensors that it keeps alive. */
  readonly tensors: number
}

/** Settings of the debug mode of ownership. */
export interface OwnershipDebugging {
  /** Called with a value that was collected without a release. Default: `console.warn`. */
  readonly report?: (leak: OwnedSite) => void
}

/** The number of stack lines to search for one of the caller's. */
const FRAMES = 60

/** Returns the location in a stack line: `file:line:column`. */
const placeOf = (line: string): string | undefined => {
  const place = /\(?((?:file:\/\/|node:|\/|[A-Za-z]:[\\/])[^()]*:\d+:\d+)\)?$/.exec(line.trim())?.[1]
  return place === undefined ? undefined : decodeURIComponent(place.replace(/^file:\/\//, '')).replaceAll('\\', '/')
}

/**
 * Returns the first location outside of Tandem in a stack trace, or else the first of all, or
 * undefined for a trace without locations.
 *
 * @example
 * siteIn('Error\n    at f (file:///home/me/app.ts:3:7)\n    at node:internal/x:1:1') // '/home/me/app.ts:3:7'
 */
export const siteIn = (stack: string): string | undefined => {
  const places = stack.split('\n').flatMap((line) => placeOf(line) ?? [])
  return places.find((place) => !isOwnFile(place)) ?? places[0]
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

// One switch for the process: ownership is global, like tensors.
let leaks: FinalizationRegistry<OwnedSite> | undefined = /^(1|true|on)$/i.test(
  environmentVariable('TANDEM_DEBUG_OWNERSHIP') ?? '',
)
  ? start()
  : undefined

const live = new Set<OwnedSite>()

/**
 * Turns the debug mode of ownership on or off, for values that are owned from now on. While it is
 * on, errors of use after release, of a second release and of values that were never released name
 * the line that owned them. The environment variable TANDEM_DEBUG_OWNERSHIP=1 turns it on at the
 * start.
 *
 * Effects  a switch of the process. When it is on, a value that is collected without a release is
 *          reported some time later.
 * Cost     a stack trace for each `own` when it is on; nothing when it is off.
 *
 * @example
 * debugOwnership('off') // undefined
 */
export const debugOwnership = (mode: 'on' | 'off', options: OwnershipDebugging = {}): void => {
  leaks = mode === 'on' ? start(options) : undefined
}

/**
 * Lists the currently owned values that were owned in debug mode, oldest first, with their
 * locations and numbers of tensors.
 *
 * @example
 * liveOwned() // []
 */
export const liveOwned = (): readonly OwnedSite[] => [...live]

/** The record of an owned value. */
export interface OwnedRecord {
  /** For messages: the location where the value was owned, or '' if the debug mode was off. */
  readonly origin: string
  readonly forget: () => void
}

const NOTHING: OwnedRecord = { origin: '', forget: () => {} }

/**
 * Records an owned value, in debug mode, by the function that releases it: once that function is
 * garbage, nothing can release the value.
 */
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
