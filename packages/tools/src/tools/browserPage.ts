/** One page of a browser: the actions of its conversation, and their limits. */
import { errorMessage } from '@tandem-rl/base'
import type { ContentPart } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { BrowserContext, Page, Request } from 'playwright-core'
import { type AllowedOrigins, checkAddress } from './browserOrigins.js'
import { beginning, clipped } from './clipped.js'

/** An action on a page. Selectors are CSS or Playwright's own syntax (`text=Next`). */
export type BrowserAction =
  | { readonly action: 'navigate'; readonly url: string }
  | { readonly action: 'click'; readonly selector: string }
  | { readonly action: 'type'; readonly selector: string; readonly text: string }
  | { readonly action: 'screenshot' }
  | { readonly action: 'extract'; readonly selector: string }
  | { readonly action: 'scroll'; readonly direction: 'up' | 'down'; readonly pixels: number }

export interface BrowserLimits {
  /** Time limit of an action in milliseconds; on a timeout the page is closed. Default 15,000. */
  readonly actionMs: number
  /** Longest wait for an element, in milliseconds. Default 5,000. */
  readonly elementMs: number
  /** Maximum number of characters of page text in an observation. Default 10,000. */
  readonly maxText: number
  /** Maximum size of a screenshot in bytes. Default 2 MiB. */
  readonly maxPictureBytes: number
  /**
   * Maximum number of open pages, over all conversations. When it is exceeded, the least recently
   * used page is closed. Default 64.
   */
  readonly pages: number
  /** Milliseconds after which an unused page is closed. Default 600,000. */
  readonly idleMs: number
  /** Longest start of the browser in milliseconds. Default 60,000. */
  readonly launchMs: number
}

/** The result of an action, or an error message for the policy. */
export type ActionResult = E.Either<string, string | readonly ContentPart[]>

export interface BrowserPage {
  readonly act: (action: BrowserAction) => Promise<ActionResult>
  /** Returns the reason why the page can no longer be used; undefined if it can. */
  readonly gone: () => string | undefined
  readonly close: () => Promise<void>
}

/** Maximum number of side effects of a page that one observation reports. */
const MOST_NOTES = 10

interface Notes {
  readonly add: (note: string) => void
  /** Returns the notes added since the last call. */
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

/** Returns the first line of a Playwright error, without its log of attempts. */
const firstLine = (error: unknown): string => {
  const text = errorMessage(error)
  return clipped(text.split('\n')[0] ?? '', 500)
}

/** Returns true for a frame that has loaded nothing: a blank page or an error page. */
const isNowhere = (url: string): boolean => url === '' || /^(about:blank|about:srcdoc|chrome-error:)/.test(url)

/**
 * Blocks requests of the page to other origins. Redirects to other origins are blocked by the gate
 * and reported here.
 */
const guard = async (context: BrowserContext, allowed: AllowedOrigins, notes: Notes): Promise<void> => {
  const refuse = (reason: string): void => notes.add(`refused: ${reason}`)
  await context.route('**/*', async (route) => {
    const checked = checkAddress(allowed, route.request().url())
    if (E.isLeft(checked)) refuse(checked.left)
    const reported = E.isRight(checked) ? route.continue() : route.abort('blockedbyclient')
    await reported.catch(() => {}) // the page was closed in the meantime, and its requests with it
  })
  await context.routeWebSocket('**/*', async (socket) => {
    const checked = checkAddress(allowed, socket.url())
    if (E.isRight(checked)) {
      socket.connectToServer()
      return
    }
    refuse(checked.left)
    await socket.close().catch(() => {}) // the page was closed in the meantime
  })
  context.on('requestfailed', (request: Request) => {
    const checked = checkAddress(allowed, request.url())
    if (E.isLeft(checked)) refuse(checked.left)
  })
}

/** Dismisses dialogs, and cancels downloads and new windows. */
const quiet = (context: BrowserContext, page: Page, notes: Notes): void => {
  const answer = (of: Page): void => {
    of.on('dialog', (dialog) => {
      notes.add(`${dialog.type()} dismissed: ${JSON.stringify(clipped(dialog.message(), 200))}`)
      dialog.dismiss().catch(() => {}) // its page was closed in the meantime
    })
    of.on('download', (download) => {
      notes.add(`a download was refused: ${clipped(download.url(), 200)}`)
      download.cancel().catch(() => {}) // its page was closed in the meantime
    })
  }
  answer(page)
  context.on('page', (popup) => {
    answer(popup)
    notes.add('a new window was closed')
    popup.close().catch(() => {}) // it has closed itself
  })
}

/**
 * Returns the text of an element, with a note on what was omitted. At most `maxText` characters
 * leave the browser.
 */
const textOf = async (page: Page, selector: string, { maxText, elementMs }: BrowserLimits): Promise<string> => {
  const read = await page
    .locator(selector)
    .first()
    .evaluate(
      (element, length) => {
        const whole = String('innerText' in element ? element.innerText : element.textContent)
        return { text: whole.slice(0, length), size: whole.length }
      },
      maxText,
      { timeout: elementMs },
    )
  // The code of the page shares this world and may have replaced these functions.
  const { text, size }: { readonly text: unknown; readonly size: unknown } = read
  if (typeof text !== 'string') return ''
  const kept = beginning(text, maxText)
  return typeof size === 'number' && size > kept.length ? `${kept}...\n[${size - kept.length} more characters]` : kept
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

const perform = async ({ page, allowed, limits }: Acting, wanted: BrowserAction): Promise<ActionResult> => {
  const { elementMs, actionMs } = limits
  switch (wanted.action) {
    case 'navigate': {
      const checked = checkAddress(allowed, wanted.url)
      if (E.isLeft(checked)) return checked
      const answer = await page.goto(checked.right, { waitUntil: 'domcontentloaded', timeout: actionMs })
      const status = answer === null ? '' : ` (status ${answer.status()})`
      return E.right(`${await titleOf(page)}\n${page.url()}${status}\n\n${await textOf(page, 'body', limits)}`)
    }
    case 'click':
      await page.locator(wanted.selector).first().click({ timeout: elementMs })
      await page.waitForLoadState('domcontentloaded', { timeout: actionMs })
      return E.right(`clicked; the page is ${page.url()}`)
    case 'type':
      await page.locator(wanted.selector).first().fill(wanted.text, { timeout: elementMs })
      return E.right('typed')
    case 'extract':
      return E.right(await textOf(page, wanted.selector, limits))
    case 'scroll': {
      const pixels = wanted.direction === 'up' ? -wanted.pixels : wanted.pixels
      await page.mouse.wheel(0, pixels)
      return E.right(`scrolled ${wanted.direction}`)
    }
    case 'screenshot':
      return picture(page, limits)
  }
}

/** Appends the notes to a result. */
const withNotes = (result: ActionResult, notes: readonly string[]): ActionResult => {
  if (notes.length === 0) return result
  const reported = notes.map((note) => `[${note}]`).join('\n')
  if (E.isLeft(result)) return E.left(`${result.left}\n${reported}`)
  const { right } = result
  return E.right(typeof right === 'string' ? `${right}\n${reported}` : [...right, { type: 'text', text: reported }])
}

/**
 * Opens a page in its own context, with separate cookies, storage and cache.
 *
 * Errors   rejects with Playwright's error if the browser has ended.
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
  /** Returns the disallowed address of a frame made without a request: data, blob, other. */
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
