/** The browser as a tool of a policy. */

import { checkOptions } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { HistoryPrompt, Transform } from 'tandem-rl'
import type { ToolFailure } from 'tandem-rl/envs'
import { z } from 'zod'
import { BROWSER_TRANSFORM_OPTIONS } from '../optionKinds.js'
import type { Browser, BrowserOutcome, PageRef } from './browser.js'
import type { BrowserAction } from './browserPage.js'
import { type NamedToolOptions, namedToolTransform } from './simpleToolTransform.js'
import { type Tool, type ToolReply, tool, toolFailure } from './tool.js'
import { ToolRegistry } from './toolRegistry.js'
import type { ToolEntries } from './toolTransform.js'

const parameters = {
  action: z.enum(['navigate', 'click', 'type', 'extract', 'scroll', 'screenshot']),
  url: z.string().optional().describe('navigate: where to'),
  selector: z
    .string()
    .max(1000)
    .optional()
    .describe('click, type, extract: a CSS selector; extract takes the whole page without it'),
  text: z.string().max(100_000).optional().describe('type: what to write'),
  direction: z.enum(['up', 'down']).optional().describe('scroll: default down'),
  pixels: z.number().int().min(1).max(100_000).optional().describe('scroll: default 600'),
}

type Wanted = z.output<z.ZodObject<typeof parameters>>

/** Returns the action with its arguments, or names the missing ones. */
const actionOf = (request: Wanted): E.Either<string, BrowserAction> => {
  const { action, url, selector, text, direction = 'down', pixels = 600 } = request
  const lacks = (name: string): E.Either<string, never> => E.left(`${action} needs ${name}`)
  switch (action) {
    case 'navigate':
      return url === undefined ? lacks('url') : E.right({ action, url })
    case 'click':
      return selector === undefined ? lacks('selector') : E.right({ action, selector })
    case 'type':
      return selector === undefined || text === undefined
        ? lacks('selector and text')
        : E.right({ action, selector, text })
    case 'extract':
      return E.right({ action, selector: selector ?? 'body' })
    case 'scroll':
      return E.right({ action, direction, pixels })
    case 'screenshot':
      return E.right({ action })
  }
}

const KINDS = { Gone: 'failed', Late: 'timeout', Dead: 'infrastructure' } as const

const replyOf = (outcome: BrowserOutcome, name: string): E.Either<ToolFailure, ToolReply<PageRef>> => {
  if (outcome._tag !== 'Done') return E.left(toolFailure(name, KINDS[outcome._tag], outcome.reason))
  return E.isLeft(outcome.result)
    ? E.left(toolFailure(name, 'failed', outcome.result.left))
    : E.right({ content: outcome.result.right, state: outcome.page })
}

/**
 * Makes a tool with the actions navigate, click, type, extract, scroll and screenshot. Each
 * conversation has its own page.
 *
 * The state is the id of the page and the number of actions on it. A page is not a value and
 * cannot be forked or replayed. A call of a forked or replayed conversation, or of one whose page
 * was closed by a timeout or for lack of use, returns an error, and the policy starts again with
 * `navigate`.
 *
 * Errors   `call`: `arguments` for an action with a missing argument; `failed` for addresses that
 *          are not allowed, missing elements and closed pages; `timeout`; `infrastructure` if the
 *          browser has ended and does not restart.
 * Source   TorchRL `BrowserTransform`, whose check of domains lets `evil-example.com` pass for
 *          `example.com`.
 */
export const browserTool = (browser: Browser, { name = 'browser' }: { readonly name?: string } = {}): Tool =>
  tool<typeof parameters, PageRef>({
    name,
    description:
      'Looks at web pages: navigate to a url, click and type on elements, extract text, scroll, take a screenshot.',
    parameters,
    initial: { page: null, step: 0 },
    run:
      (request, { state, signal }) =>
      async () => {
        const action = actionOf(request)
        if (E.isLeft(action)) return E.left(toolFailure(name, 'arguments', action.left))
        return replyOf(await browser.act(state, action.right, signal), name)
      },
  })

/**
 * Makes a `SimpleToolTransform` with `browserTool` as its only tool.
 *
 * Errors   as `SimpleToolTransform`.
 * Effects  those of the browser. Its owner closes it.
 * Source   TorchRL `BrowserTransform`.
 */
export const BrowserTransform = (
  browser: Browser,
  options: NamedToolOptions = {},
): Transform<null, HistoryPrompt, ToolEntries> => {
  checkOptions('BrowserTransform', options, BROWSER_TRANSFORM_OPTIONS)
  return namedToolTransform({ name: 'BrowserTransform', registry: ToolRegistry([browserTool(browser)]), ...options })
}
