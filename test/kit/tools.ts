/** Tools for tests: one that counts, one that fails on demand, one that answers on demand. */
import type { ToolCall } from '@tandem-rl/text'
import { type Tool, tool, toolFailure } from '@tandem-rl/tools'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import type { ToolFailure } from '../../src/envs/base/toolFailure.js'

export const callOf = (name: string, args: ToolCall['arguments'] = {}): ToolCall => ({ name, arguments: args })

/** Remembers the sum of what it was given. */
export const adder = tool({
  name: 'add',
  description: 'Adds to what was there.',
  parameters: { by: z.number().int() },
  initial: 0,
  run: async ({ by }, { state }) => ({ content: String(state + by), state: state + by }),
})

/** Says what it is told; remembers nothing. */
export const echo = tool({
  name: 'echo',
  description: 'Says it again.',
  parameters: { text: z.string() },
  initial: null,
  run: async ({ text }) => ({ content: text, state: null }),
})

/** Ends the episode with the text that it is given. */
export const finisher = tool({
  name: 'answer',
  description: 'Gives the final answer.',
  parameters: { text: z.string() },
  initial: null,
  run: async ({ text }) => ({ content: text, status: 'finish', state: null }),
})

/** Fails in the way that it is asked to. */
export const failing = tool({
  name: 'fail',
  description: 'Fails.',
  parameters: { kind: z.enum(['failed', 'infrastructure', 'throw']) },
  initial: null,
  run: ({ kind }) => {
    if (kind === 'throw') throw new Error('it broke')
    return TE.left(toolFailure('fail', kind, `as ${kind} as can be`))
  },
})

/** A tool whose calls wait until somebody lets them go on, whatever their signals say. */
export interface Waiting {
  readonly tool: Tool
  /** The texts of the calls that run, in the order in which they began. */
  readonly began: () => readonly string[]
  /** Those whose signal aborted. */
  readonly aborted: () => readonly string[]
  readonly answer: (text: string, failure?: ToolFailure) => void
  /** Resolves when so many calls have begun. */
  readonly hasBegun: (count: number) => Promise<void>
}

export const waiting = (): Waiting => {
  const began: string[] = []
  const aborted: string[] = []
  const open = new Map<string, (failure?: ToolFailure) => void>()
  let watchers: readonly { readonly count: number; readonly go: () => void }[] = []
  return {
    tool: tool({
      name: 'wait',
      description: 'Waits.',
      parameters: { text: z.string() },
      initial: null,
      run:
        ({ text }, { signal }) =>
        () =>
          new Promise((resolve) => {
            began.push(text)
            signal.addEventListener('abort', () => aborted.push(text))
            open.set(text, (failure) =>
              resolve(
                failure ? { _tag: 'Left', left: failure } : { _tag: 'Right', right: { content: text, state: null } },
              ),
            )
            for (const { count, go } of watchers) if (began.length >= count) go()
          }),
    }),
    began: () => [...began],
    aborted: () => [...aborted],
    answer: (text, failure) => open.get(text)!(failure),
    hasBegun: (count) =>
      new Promise((go) => {
        watchers = [...watchers, { count, go }]
        if (began.length >= count) go()
      }),
  }
}
