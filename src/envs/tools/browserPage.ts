/**
 * One page of a browser, which belongs to one conversation: what can be done on it, and what it may
 * not do.
 */

import * as E from 'fp-ts/lib/Either.js'
import type { BrowserContext, Page, Request } from 'playwright-core'
import { errorMessage } from '../../core/failure.js'
import type { ContentPart } from '../../text/history/history.js'
import { type AllowedOrigins, checkAddress } from './browserOrigins.js'
import { clipped } from './clipped.js'

/**
 * What a policy asks of a page. Selectors are CSS, or what Playwright reads besides (`text=Next`).
 */
export type BrowserAction =
  | { readonly action: 'navigate'; readonly url: string }
  | { readonly action: 'click'; readonly selector: string }
  | { readonly action: 'type'; readonly selector: string; readonly text: string }
  | { readonly action: 'screenshot' }
  | { readonly action: 'extract'; readonly selector: string }
  | { readonly action: 'scroll'; readonly direction: 'up' | 'down'; readonly pixels: number }

export interface BrowserLimits {
  /** Longest time for an action: a page that takes longer is closed. Default 15,000. */
  readonly actionMs: number
  /** How long an element is waited for. Default 5,000. */
  readonly elementMs: number
  /** Characters of the text of a page that are told. Default 10,000. */
  readonly maxText: number
  /** Bytes of a picture. Default 2 MiB. */
  readonly maxPictureBytes: number
  /**
   * Pages that are open at a time, of all conversations; more close the one that was not used for
   * longest. Default 64.
   */
  readonly pages: number
  /** A page that nobody uses is closed after that. Default 600,000. */
  readonly idleMs: number
  /** How long the browser may take to start. Default 60,000. */
  readonly launchMs: number
}

/** An action that cannot be done: for the policy. */
export type ActionResult = E.Either<string, string | readonly ContentPart[]>

export interface BrowserPage {
  readonly act: (action: BrowserAction) => Promise<ActionResult>
  /** Why it is of no use any more. */
  readonly gone: () => string | undefined
  readonly close: () => Promise<void>
}

/** Things that a page did beside what it was asked, of which so many are told. */
const MOST_NOTES = 10

interface Notes {
  readonly add: (note: string) => void
  /** What was added since the last time. */
  readonly take: () => readonly string[]
}

const makeNotes = (): Notes => {
  let notes: readonly string[] = []
  return {
    add: (note) => {
      if (notes.length < MOST_NOTES && !notes.includes(note)) notes = [...notes, note]
    },
    take: () => {
      const taken = notes
      notes = []
      return taken
    },
  }
}

/** The first line of an error of Playwright, without its log of attempts. */
const firstLine = (error: unknown): string => {
  const text = errorMessage(error)
  return clipped(text.split('\n')[0] ?? '', 500)
}

/** Where a frame may be besides allowed origins: nowhere yet, or where nothing could be loaded. */
const isNowhere = (url: string): boolean => url === '' || /^(about:blank|about:srcdoc|chrome-error:)/.test(url)

/**
 * Refuses what the page asks of other origins. What it is redirected to is refused by the gate, and
 * told here.
 */
const guard = async (context: BrowserContext, allowed: AllowedOrigins, notes: Notes): Promise<void> => {
  const refuse = (reason: string): void => notes.add(`refused: ${reason}`)
  await context.route('**/*', async (route) => {
    const checked = checkAddress(allowed, route.request().url())
    if (E.isLeft(checked)) refuse(checked.left)
    const told = E.isRight(checked) ? route.continue() : route.abort('blockedbyclient')
    await told.catch(() => {}) // the page was closed meanwhile, and its requests with it
  })
  await context.routeWebSocket('**/*', async (socket) => {
    const checked = checkAddress(allowed, socket.url())
    if (E.isRight(checked)) {
      socket.connectToServer()
      return
    }
    refuse(checked.left)
    await socket.close().catch(() => {}) // the page was closed meanwhile
  })
  context.on('requestfailed', (request: Request) => {
    const checked = checkAddress(allowed, request.url())
    if (E.isLeft(checked)) refuse(checked.left)
  })
}

/** Ends whatever would wait for a person, or leave the page. */
const quiet = (context: BrowserContext, page: Page, notes: Notes): void => {
  const answer = (of: Page): void => {
    of.on('dialog', (dialog) => {
      notes.add(`${dialog.type()} dismissed: ${JSON.stringify(clipped(dialog.message(), 200))}`)
      dialog.dismiss().catch(() => {}) // its page was closed meanwhile
    })
    of.on('download', (download) => {
      notes.add(`a download was refused: ${clipped(download.url(), 200)}`)
      download.cancel().catch(() => {}) // its page was closed meanwhile
    })
  }
  answer(page)
  context.on('page', (popup) => {
    answer(popup)
    notes.add('a new window was closed')
    popup.close().catch(() => {}) // it closed itself
  })
}

/** The text of an element, of which no more leaves the browser than is told. */
const textOf = async (page: Page, selector: string, { maxText, elementMs }: BrowserLimits): Promise<string> => {
  const read = await page
    .locator(selector)
    .first()
    .evaluate(
      (element, length) => String('innerText' in element ? element.innerText : element.textContent).slice(0, length),
      maxText + 1,
      {
        timeout: elementMs,
      },
    )
  // The page runs in the same world, and may have put anything in the place of these functions.
  const text: unknown = read
  return clipped(typeof text === 'string' ? text : '', maxText)
}

const titleOf = async (page: Page): Promise<string> => clipped(await page.title(), 200)

const picture = async (page: Page, { maxPictureBytes, actionMs }: BrowserLimits): Promise<ActionResult> => {
  const bytes = await page.screenshot({ type: 'png', timeout: actionMs, animations: 'disabled' })
  return bytes.length > maxPictureBytes
    ? E.left(`the picture has ${bytes.length} bytes, more than ${maxPictureBytes}`)
    : E.right([{ type: 'image', source: { base64: bytes.toString('base64'), mediaType: 'image/png' } }])
}

interface Acting {
  readonly page: Page
  readonly allowed: AllowedOrigins
  readonly limits: BrowserLimits
}

const perform = async ({ page, allowed, limits }: Acting, asked: BrowserAction): Promise<ActionResult> => {
  const { elementMs, actionMs } = limits
  switch (asked.action) {
    case 'navigate': {
      const checked = checkAddress(allowed, asked.url)
      if (E.isLeft(checked)) return checked
      const answer = await page.goto(checked.right, { waitUntil: 'domcontentloaded', timeout: actionMs })
      const status = answer === null ? '' : ` (status ${answer.status()})`
      return E.right(`${await titleOf(page)}\n${page.url()}${status}\n\n${await textOf(page, 'body', limits)}`)
    }
    case 'click':
      await page.locator(asked.selector).first().click({ timeout: elementMs })
      await page.waitForLoadState('domcontentloaded', { timeout: actionMs })
      return E.right(`clicked; the page is ${page.url()}`)
    case 'type':
      await page.locator(asked.selector).first().fill(asked.text, { timeout: elementMs })
      return E.right('typed')
    case 'extract':
      return E.right(await textOf(page, asked.selector, limits))
    case 'scroll': {
      const pixels = asked.direction === 'up' ? -asked.pixels : asked.pixels
      await page.mouse.wheel(0, pixels)
      return E.right(`scrolled ${asked.direction}`)
    }
    case 'screenshot':
      return picture(page, limits)
  }
}

/** With what happened besides, at the end. */
const withNotes = (result: ActionResult, notes: readonly string[]): ActionResult => {
  if (notes.length === 0) return result
  const told = notes.map((note) => `[${note}]`).join('\n')
  if (E.isLeft(result)) return E.left(`${result.left}\n${told}`)
  const { right } = result
  return E.right(typeof right === 'string' ? `${right}\n${told}` : [...right, { type: 'text', text: told }])
}

/**
 * A page in a context of its own: no cookies, no storage, no cache of anybody else.
 *
 * Errors   rejects as Playwright does if the browser is gone.
 * Effects  a page, until `close`.
 *
 * @internal
 */
export const openPage = async (
  context: BrowserContext,
  { allowed, limits }: Omit<Acting, 'page'>,
): Promise<BrowserPage> => {
  const notes = makeNotes()
  let gone: string | undefined
  await guard(context, allowed, notes)
  const page = await context.newPage()
  quiet(context, page, notes)
  page.on('crash', () => {
    gone ??= 'the page crashed'
  })
  page.on('close', () => {
    gone ??= 'the page was closed'
  })
  /**
   * Addresses of frames that were made without a request: data, blobs, and what nobody thought of.
   */
  const strayFrame = (): string | undefined =>
    page
      .frames()
      .map((frame) => frame.url())
      .find((url) => !isNowhere(url) && E.isLeft(checkAddress(allowed, url)))
  return {
    gone: () => gone,
    act: async (action) => {
      const result = await perform({ page, allowed, limits }, action).catch(
        (error: unknown): ActionResult => E.left(firstLine(error)),
      )
      const stray = strayFrame()
      if (stray !== undefined) {
        gone ??= `it went to ${clipped(stray, 100)}, which is not an allowed origin`
        return E.left(`the page was closed: ${gone}`)
      }
      return withNotes(result, notes.take())
    },
    close: async () => {
      gone ??= 'the page was closed'
      await context.close()
    },
  }
}
