/** A browser that conversations share, each with a page of its own. */
import {
  ABORTED,
  cancellation,
  checkOptions,
  errorMessage,
  type Files,
  type Gate,
  type GateFailure,
  type Ids,
  type OpenGate,
  optionalPackage,
  type PackageFailure,
  type ResourceSpec,
  type Timers,
  unlessAborted,
} from '@tandem-rl/base'
import { importPackage, liveIds, liveTimers } from '@tandem-rl/base/host'
import { liveFiles, liveGate } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Browser as Chromium } from 'playwright-core'
import { OPEN_BROWSER_OPTIONS } from '../optionKinds.js'
import type { Lease } from '../resources/places.js'
import { type ResourcePool, resourcePool } from '../resources/resourcePool.js'
import { type AllowedOrigins, allowedOrigins, allowsDestination, checkAddress } from './browserOrigins.js'
import { type ActionResult, type BrowserAction, type BrowserLimits, type BrowserPage, openPage } from './browserPage.js'
import { clipped } from './clipped.js'

/** @internal */
type Library = typeof import('playwright-core')

export interface BrowserWorld {
  readonly files: Pick<Files, 'exists'>
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
  actionMs: 15_000,
  elementMs: 5000,
  launchMs: 60_000,
  maxText: 10_000,
  maxPictureBytes: 2 * 2 ** 20,
  pages: 64,
  idleMs: 600_000,
}

const liveWorld: BrowserWorld = {
  files: liveFiles,
  timers: liveTimers,
  ids: liveIds,
  openGate: liveGate,
  load: () => importPackage('playwright-core', import.meta),
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
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false, // this program handles signals
  })

/** A page of the pool. */
interface OpenPage {
  readonly id: string
  readonly page: BrowserPage
  readonly chromium: Chromium
}

type Pages = ResourcePool<OpenPage, void, BrowserFailure>

/** Returns the tag under which a page waits for the next action of its conversation. */
const tagOf = ({ page, step }: PageRef): string => JSON.stringify([page, step])

const openNew = async (chromium: Chromium, settings: Settings): Promise<OpenPage> => {
  const { options, world, allowed, limits } = settings
  const context = await chromium.newContext({
    acceptDownloads: false,
    serviceWorkers: 'block',
    permissions: [],
    ...(options.viewport !== undefined && { viewport: options.viewport }),
  })
  return { id: world.ids.fresh(), page: await openPage(context, { allowed, limits }), chromium }
}

/** Makes the pool of pages. `living` resolves with the running browser. */
const pagesOf = (living: () => Promise<Chromium>, settings: Settings): Pages => {
  const { pages, idleMs, actionMs, launchMs } = settings.limits
  const spec: ResourceSpec<OpenPage, void, BrowserFailure> = {
    name: 'pages of the browser',
    start: () =>
      TE.tryCatch(
        async () => openNew(await living(), settings),
        (error) => ({ _tag: 'BrowserFailure', reason: clipped(errorMessage(error), 1000) }),
      ),
    end: ({ page }) => page.close().catch(() => {}), // the browser has ended, and the page with it
    isAlive: ({ page }) => page.gone() === undefined,
  }
  const { timers } = settings.world
  return resourcePool(spec, { limit: pages, idleMs, waitMs: actionMs, startMs: launchMs, timers })
}

const NO_PAGE = 'no page is open: navigate first'

/** Leases the page of a reference, or a new one if the action is `navigate`. */
const pageFor = async (
  pages: Pages,
  ref: PageRef,
  action: BrowserAction,
  signal: AbortSignal,
): Promise<Lease<OpenPage> | BrowserOutcome> => {
  const known = ref.page === null ? undefined : pages.take(tagOf(ref))
  const gone = known?.resource.page.gone()
  if (known !== undefined && gone === undefined) return known
  await known?.end()
  if (action.action !== 'navigate') {
    const why = ref.page === null ? '' : `${gone ?? 'the page of this conversation no longer exists'}; `
    return { _tag: 'Gone', reason: `${why}${NO_PAGE}` }
  }
  const lease = await pages.acquire({ args: undefined, signal })()
  if (E.isRight(lease)) return lease.right
  const isLate = lease.left._tag === 'ResourceFailure' && lease.left.kind === 'cancelled'
  return { _tag: isLate ? 'Late' : 'Dead', reason: lease.left.reason }
}

const actOn = async (
  lease: Lease<OpenPage>,
  action: BrowserAction,
  { settings, step, signal }: { readonly settings: Settings; readonly step: number; readonly signal: AbortSignal },
): Promise<BrowserOutcome> => {
  const { limits, world } = settings
  const { id, page, chromium } = lease.resource
  const life = cancellation({ signal })
  const ring = world.timers.after(limits.actionMs, life.stop)
  const result = await unlessAborted(page.act(action), life.signal)
  ring()
  life.release()
  if (result === ABORTED) {
    await lease.end()
    const why = life.why() === 'stopped' ? `it took more than ${limits.actionMs} ms` : 'it was cancelled'
    return { _tag: 'Late', reason: `${why}, and the page was closed` }
  }
  if (!chromium.isConnected()) {
    await lease.end()
    return { _tag: 'Dead', reason: 'the browser has ended' }
  }
  const next: PageRef = { page: id, step: E.isRight(result) ? step + 1 : step }
  if (next.step === 0)
    await lease.end() // the navigation failed, and no conversation has this page
  else lease.keep(tagOf(next))
  return { _tag: 'Done', result, page: next }
}

const browserOf = (lib: Library, gate: Gate, settings: Settings, first: Chromium): Browser => {
  let chromium = first
  let starting: Promise<Chromium> | undefined
  let isClosed = false
  /** The references whose pages perform an action. */
  const busy = new Set<string>()
  /** Returns the running browser. One that has ended is started again, without pages. */
  const living = async (): Promise<Chromium> => {
    if (chromium.isConnected()) return chromium
    starting ??= launch(lib, gate, settings)
      .then(adopt)
      .finally(() => {
        starting = undefined
      })
    return starting
  }
  const pages = pagesOf(living, settings)
  const adopt = (started: Chromium): Chromium => {
    chromium = started
    started.on('disconnected', () => void pages.drain()) // its pages have ended with it
    return started
  }
  adopt(first)
  return {
    pages: () => {
      const { idle, leased } = pages.stats()
      return idle + leased
    },
    act: async (ref, action, signal) => {
      if (isClosed) return { _tag: 'Dead', reason: 'the browser was closed' }
      if (action.action === 'navigate') {
        const checked = checkAddress(settings.allowed, action.url)
        if (E.isLeft(checked)) return { _tag: 'Done', result: checked, page: ref }
      }
      const tag = tagOf(ref)
      if (busy.has(tag)) return { _tag: 'Gone', reason: 'the page is busy with another action' }
      if (ref.page !== null) busy.add(tag)
      try {
        const lease = await pageFor(pages, ref, action, signal)
        if ('_tag' in lease) return lease
        const step = lease.tag === null ? 0 : ref.step
        return await actOn(lease, action, { settings, step, signal })
      } finally {
        busy.delete(tag)
      }
    },
    close: async () => {
      isClosed = true
      await pages.close()
      await starting?.catch(() => {}) // a browser that did not start needs no closing
      await chromium.close()
      await gate.close()
    },
  }
}

/**
 * Starts a browser that can reach only the allowed origins.
 *
 * Two mechanisms enforce this. Every request of a page, its frames and its sockets is checked
 * before it is sent. All traffic of the browser also passes a gate that connects only to allowed
 * origins, which covers redirects, new windows and Chromium's own requests. Each conversation has
 * its own context, with separate cookies and storage. Dialogs are dismissed, downloads and new
 * windows are refused, and all three are reported in the observation.
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
      return E.right(browserOf(lib.right, gate.right, settings, chromium))
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
