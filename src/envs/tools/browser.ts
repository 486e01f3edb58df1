/** A browser that conversations share, each with a page of its own. */

import * as E from 'fp-ts/lib/Either.js'
import type * as TE from 'fp-ts/lib/TaskEither.js'
import type { Browser as Chromium } from 'playwright-core'
import { ABORTED, cancellation, unlessAborted } from '../../core/cancellation.js'
import type { Clock, Files, Ids, Timers } from '../../core/capabilities.js'
import { errorMessage } from '../../core/failure.js'
import type { Gate, GateFailure, OpenGate } from '../../core/http.js'
import { aList, aRecord, aText, checkOptions, type OptionKinds, oneOf } from '../../core/options.js'
import { optionalPackage, type PackageFailure } from '../../data/codecs/optionalPackage.js'
import { liveClock, liveTimers } from '../../live/clock.js'
import { importPackage } from '../../live/environment.js'
import { liveFiles } from '../../live/files.js'
import { liveGate } from '../../live/gate.js'
import { liveIds } from '../../live/ids.js'
import { type AllowedOrigins, allowedOrigins, allowsDestination, checkAddress } from './browserOrigins.js'
import { type ActionResult, type BrowserAction, type BrowserLimits, type BrowserPage, openPage } from './browserPage.js'
import { clipped } from './clipped.js'

/** @internal */
type Library = typeof import('playwright-core')

export interface BrowserWorld {
  readonly files: Pick<Files, 'exists'>
  readonly clock: Clock
  readonly timers: Timers
  readonly ids: Ids
  readonly openGate: OpenGate
  /** Resolves with the exports of `playwright-core`. Default: imports it. */
  readonly load: () => Promise<unknown>
}

export interface BrowserOptions {
  /**
   * Origins that pages may open and load from: `example.com`, `http://127.0.0.1:8080`,
   * `*.example.com` (see `allowedOrigins`).
   */
  readonly allowedOrigins: readonly string[]
  /** The path of the Chromium executable. */
  readonly executablePath: string
  /**
   * `none`: without Chromium's own sandbox, which does not work for the superuser or in most
   * containers. Default `chromium`.
   */
  readonly sandbox?: 'chromium' | 'none'
  readonly viewport?: { readonly width: number; readonly height: number }
  readonly limits?: Partial<BrowserLimits>
  readonly world?: Partial<BrowserWorld>
}

/** The failure of a browser that is not installed or does not start. */
export interface BrowserFailure {
  readonly _tag: 'BrowserFailure'
  readonly reason: string
  readonly cause?: PackageFailure | GateFailure
}

/** The outcome of an action. `Gone`: the page does not exist, or no longer exists. */
export type BrowserOutcome =
  | { readonly _tag: 'Done'; readonly result: ActionResult; readonly page: PageRef }
  | { readonly _tag: 'Gone'; readonly reason: string }
  | { readonly _tag: 'Late'; readonly reason: string }
  | { readonly _tag: 'Dead'; readonly reason: string }

/** The page of a conversation and its number of actions. `page` is null before the first one. */
export interface PageRef {
  readonly page: string | null
  readonly step: number
}

export interface Browser {
  /**
   * Performs an action on the page of a conversation. The page counts its actions. A reference with
   * an older count belongs to a conversation that was forked or replayed, and its action returns
   * `Gone`.
   */
  readonly act: (ref: PageRef, action: BrowserAction, signal: AbortSignal) => Promise<BrowserOutcome>
  /** Returns the number of open pages. */
  readonly pages: () => number
  /** Closes all pages, ends the browser and removes its folder. Resolves once all have ended. */
  readonly close: () => Promise<void>
}

const LIMITS: BrowserLimits = {
  ...{ actionMs: 15_000, elementMs: 5000, launchMs: 60_000 },
  ...{ maxText: 10_000, maxPictureBytes: 2 * 2 ** 20, pages: 64, idleMs: 600_000 },
}

const liveWorld: BrowserWorld = {
  ...{ files: liveFiles, clock: liveClock, timers: liveTimers, ids: liveIds, openGate: liveGate },
  load: () => importPackage('playwright-core'),
}

interface Settings {
  readonly allowed: AllowedOrigins
  readonly limits: BrowserLimits
  readonly world: BrowserWorld
  readonly options: BrowserOptions
}

/** Starts Chromium with all of its traffic routed through the gate. */
const launch = (lib: Library, gate: Gate, { limits, options }: Settings): Promise<Chromium> =>
  lib.chromium.launch({
    executablePath: options.executablePath,
    chromiumSandbox: options.sandbox !== 'none',
    timeout: limits.launchMs,
    proxy: { server: gate.url, bypass: '<-loopback>' },
    args: ['--disable-quic', '--force-webrtc-ip-handling-policy=disable_non_proxied_udp'],
    ...{ handleSIGINT: false, handleSIGTERM: false, handleSIGHUP: false }, // this program handles signals
  })

interface Open {
  readonly page: BrowserPage
  step: number
  usedMs: number
  use: 'idle' | 'busy'
}

/** The pages of one browser. */
interface Room {
  readonly chromium: Chromium
  readonly pages: Map<string, Open>
}

const closePage = async ({ pages }: Room, id: string): Promise<void> => {
  const open = pages.get(id)
  pages.delete(id)
  await open?.page.close().catch(() => {}) // the browser has ended, and the page with it
}

/**
 * Closes idle pages past their time limit, and if there are too many, the least recently used ones.
 */
const makeRoom = async (room: Room, { limits, world }: Settings): Promise<'room' | 'full'> => {
  const idle = [...room.pages]
    .filter(([, { use }]) => use === 'idle')
    .sort(([, one], [, other]) => one.usedMs - other.usedMs)
  const now = world.clock.now()
  const old = idle.filter(([, { usedMs }]) => now - usedMs > limits.idleMs)
  const tooMany = Math.max(0, room.pages.size - old.length - limits.pages + 1)
  const rest = idle.slice(old.length)
  await Promise.all([...old, ...rest.slice(0, tooMany)].map(([id]) => closePage(room, id)))
  return tooMany > rest.length ? 'full' : 'room'
}

const openNew = async (room: Room, settings: Settings): Promise<readonly [string, Open]> => {
  const { options, world, allowed, limits } = settings
  const context = await room.chromium.newContext({
    ...{ acceptDownloads: false, serviceWorkers: 'block', permissions: [] },
    ...(options.viewport !== undefined && { viewport: options.viewport }),
  })
  const open: Open = {
    page: await openPage(context, { allowed, limits }),
    step: 0,
    usedMs: world.clock.now(),
    use: 'busy',
  }
  const id = world.ids.fresh()
  room.pages.set(id, open)
  return [id, open]
}

const NO_PAGE = 'no page is open: navigate first'

/** Returns the page of a reference, or a new one if the action is `navigate`. */
const pageFor = async (
  room: Room,
  ref: PageRef,
  action: BrowserAction,
  settings: Settings,
): Promise<readonly [string, Open] | BrowserOutcome> => {
  const open = ref.page === null ? undefined : room.pages.get(ref.page)
  const gone = open?.page.gone()
  if (ref.page !== null && open !== undefined && gone === undefined && open.step === ref.step) {
    if (open.use === 'busy') return { _tag: 'Gone', reason: 'the page is busy with another action' }
    open.use = 'busy'
    return [ref.page, open]
  }
  if (ref.page !== null && gone !== undefined) await closePage(room, ref.page)
  if (action.action !== 'navigate') {
    const why = ref.page === null ? '' : `${gone ?? 'the page of this conversation no longer exists'}; `
    return { _tag: 'Gone', reason: `${why}${NO_PAGE}` }
  }
  if ((await makeRoom(room, settings)) === 'full')
    return { _tag: 'Dead', reason: `all ${room.pages.size} allowed pages are in use` }
  return openNew(room, settings)
}

const actOn = async (
  room: Room,
  [id, open]: readonly [string, Open],
  action: BrowserAction,
  { settings, signal }: { readonly settings: Settings; readonly signal: AbortSignal },
): Promise<BrowserOutcome> => {
  const { limits, world } = settings
  const life = cancellation({ signal })
  const ring = world.timers.after(limits.actionMs, life.stop)
  const result = await unlessAborted(open.page.act(action), life.signal)
  ring()
  life.release()
  open.use = 'idle'
  open.usedMs = world.clock.now()
  if (result === ABORTED) {
    await closePage(room, id)
    const why = life.why() === 'stopped' ? `it took more than ${limits.actionMs} ms` : 'it was cancelled'
    return { _tag: 'Late', reason: `${why}, and the page was closed` }
  }
  if (!room.chromium.isConnected()) return { _tag: 'Dead', reason: 'the browser has ended' }
  if (E.isRight(result)) open.step++
  if (open.step === 0) await closePage(room, id) // the navigation failed, and no conversation has this page
  return { _tag: 'Done', result, page: { page: id, step: open.step } }
}

const browserOf = (lib: Library, gate: Gate, settings: Settings, first: Room): Browser => {
  let room = first
  let starting: Promise<Room> | undefined
  let isClosed = false
  /** Returns the running browser. One that has ended is started again, without pages. */
  const living = async (): Promise<Room> => {
    if (room.chromium.isConnected()) return room
    starting ??= launch(lib, gate, settings)
      .then((chromium) => {
        room = { chromium, pages: new Map() }
        return room
      })
      .finally(() => {
        starting = undefined
      })
    return starting
  }
  return {
    pages: () => room.pages.size,
    act: async (ref, action, signal) => {
      if (isClosed) return { _tag: 'Dead', reason: 'the browser was closed' }
      if (action.action === 'navigate') {
        const checked = checkAddress(settings.allowed, action.url)
        if (E.isLeft(checked)) return { _tag: 'Done', result: checked, page: ref }
      }
      try {
        const now = await living()
        const found = await pageFor(now, ref, action, settings)
        return '_tag' in found ? found : await actOn(now, found, action, { settings, signal })
      } catch (error) {
        return { _tag: 'Dead', reason: clipped(errorMessage(error), 1000) }
      }
    },
    close: async () => {
      isClosed = true
      await starting?.catch(() => {}) // a browser that did not start needs no closing
      await Promise.all([...room.pages.keys()].map((id) => closePage(room, id)))
      await room.chromium.close()
      await gate.close()
    },
  }
}

const OPEN_BROWSER_OPTIONS: OptionKinds<BrowserOptions> = {
  allowedOrigins: aList,
  executablePath: aText,
  sandbox: oneOf('none', 'chromium'),
  viewport: aRecord,
  limits: aRecord,
  world: aRecord,
}

/**
 * Starts a browser that can reach only the allowed origins.
 *
 * Two mechanisms enforce this. Every request of a page, its frames and its sockets is checked before
 * it is sent. All traffic of the browser also passes a gate that connects only to allowed origins,
 * which covers redirects, new windows and Chromium's own requests. Each conversation has its own
 * context, with separate cookies and storage. Dialogs are dismissed, downloads and new windows are
 * refused, and all three are reported in the observation.
 *
 * Errors   throws RangeError for invalid origin patterns and for limits that are not above 0.
 *          `Left(BrowserFailure)` if `playwright-core` or the executable is missing, or if the
 *          browser does not start.
 * Effects  a process with its own folder and a listening socket on this computer, until `close`.
 *          The process always ends with this one. If this process is killed before `close`, the
 *          folder remains among the temporary files.
 */
export const openBrowser = (options: BrowserOptions): TE.TaskEither<BrowserFailure, Browser> => {
  checkOptions('openBrowser', options, OPEN_BROWSER_OPTIONS)
  const limits = { ...LIMITS, ...options.limits }
  const bad = Object.entries(limits).filter(([, value]) => !(value > 0))
  if (bad.length > 0)
    throw new RangeError(
      `openBrowser: ${bad.map(([name, value]) => `${name} must be above 0, got ${value}`).join('; ')}`,
    )
  const allowed = allowedOrigins(options.allowedOrigins)
  const world = { ...liveWorld, ...options.world }
  const settings: Settings = { allowed, limits, world, options }
  return async () => {
    const lib = await optionalPackage('playwright-core', 'a browser', world.load as () => Promise<Library>)() // cast: see `load`
    if (E.isLeft(lib)) return E.left({ _tag: 'BrowserFailure', reason: lib.left.reason, cause: lib.left })
    // Playwright leaves temporary folders behind if the executable is missing.
    const isThere = await world.files.exists(options.executablePath)()
    if (E.isLeft(isThere) || !isThere.right)
      return E.left({ _tag: 'BrowserFailure', reason: `no browser found at ${options.executablePath}` })
    const gate = await world.openGate((to) => allowsDestination(allowed, to))()
    if (E.isLeft(gate)) return E.left({ _tag: 'BrowserFailure', reason: gate.left.reason, cause: gate.left })
    try {
      const chromium = await launch(lib.right, gate.right, settings)
      return E.right(browserOf(lib.right, gate.right, settings, { chromium, pages: new Map() }))
    } catch (error) {
      await gate.right.close()
      const reason = clipped(errorMessage(error), 1000)
      return E.left({
        _tag: 'BrowserFailure',
        reason: `the browser ${options.executablePath} does not start: ${reason}`,
      })
    }
  }
}
