/**
 * Conversations of many turns with a tool, through real chat templates: tokens are appended, never
 * made again from text.
 */
import { keyFromSeed, orThrow, uniformInteger } from '@tandem-rl/base'
import { scriptedPolicy } from '@tandem-rl/testing'
import { type History, appendMessage as say, textTokenizer, toolResult, trainBytePairEncoding } from '@tandem-rl/text'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { LLMCollector } from '../../../src/collectors/llmCollector.js'
import type { HistoryPrompt } from '../../../src/data/policy.js'
import { dataSpec } from '../../../src/data/spec.js'
import { data } from '../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { maskOfSpans } from '../../../src/data/tokenMasks.js'
import { DatasetChatEnv } from '../../../src/envs/datasetChatEnv.js'
import { observationLimit } from '../../../src/envs/transforms/observationLimit.js'
import { StepCounter } from '../../../src/envs/transforms/stepCounter.js'
import { TemplateTransform } from '../../../src/envs/transforms/templateTransform.js'
import { Tokenizer } from '../../../src/envs/transforms/tokenizer.js'
import { append, transform } from '../../../src/envs/transforms/transform.js'
import { rowsAt, tasks } from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'
import { ownTemplate } from '../../kit/ownTemplates.js'

useEngine()

/** The templates that know tools, with the text that ends a turn of the policy. */
const TEMPLATES = { chatml: '<|im_end|>', hermes: '<|im_end|>', headers: '<|eot|>' } as const

/** A tool that answers each message of the policy: how long it is. */
const tool = (answer: (history: History) => string) =>
  transform<null, HistoryPrompt, HistoryPrompt>({
    name: 'tool',
    initial: null,
    adds: { history: { prompt: dataSpec<History>('History') } },
    step: (next) => {
      const called = { id: 'call', name: 'look', arguments: {} }
      const answered = get(next, 'history', 'prompt').items.map((history) =>
        say(history, toolResult(called, answer(history))),
      )
      return TE.right([TensorDict({ history: { prompt: data(answered) } }, next.batchShape), null])
    },
  })

const setup = (name: keyof typeof TEMPLATES, answer: (history: History) => string, turns: number) => {
  const endOfTurn = TEMPLATES[name]
  const tokenizer = orThrow(
    textTokenizer(
      trainBytePairEncoding(['How many pens are there? There are 18.'], {
        vocabularySize: 300,
        specialTokens: [endOfTurn],
      }),
    ),
  )
  const end = tokenizer.idOf(endOfTurn)!
  const words = tokenizer.encode('There are so many pens')
  const env = (task: number) =>
    pipe(
      DatasetChatEnv({ source: tasks(5), prompts: 1, repeats: 2, start: task }),
      append(tool(answer)),
      append(observationLimit({ characters: 40 })),
      append(StepCounter({ maxSteps: turns })),
      append(TemplateTransform({ template: ownTemplate(name), endOfTurn })),
      append(Tokenizer({ tokenizer })),
    )
  /** Ids in an order that no text would be encoded in, so that encoding again would show. */
  const policy = scriptedPolicy({
    answers: (_, key) => [
      ...Array.from({ length: 1 + uniformInteger(key, 6) }, (_each, t) => words[(7 * t) % words.length]!),
      end,
    ],
  })
  return { env, policy }
}

describe('conversations with a tool', () => {
  it('law: each turn begins with all tokens of the turn before, and only what was sampled is learned', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...(Object.keys(TEMPLATES) as (keyof typeof TEMPLATES)[])), // its keys
        fc.string({ minLength: 1, maxLength: 60 }),
        fc.integer({ min: 2, max: 9 }),
        fc.nat(1000),
        async (name, text, turns, seed) => {
          const collector = LLMCollector({
            ...setup(name, (history) => `${history.messages.size} ${text.trim()}.`, turns),
            key: keyFromSeed(seed),
            concurrent: { tasks: 2, maxInFlight: 3 },
          })
          for await (const batch of collector) {
            const prompts = rowsAt(batch, 'tokens', 'prompt')
            const [said, full] = [rowsAt(batch, 'tokens', 'response'), rowsAt(batch, 'tokens', 'full')]
            const masks = rowsAt(batch, 'masks', 'assistant')
            const spans = get(batch, 'tokens', 'spans').items
            const turn = get(batch, 'turn').items
            expect(turn.toArray()).toEqual([...Array(turns).keys(), ...Array(turns).keys()])
            for (const row of full.keys()) {
              expect(full[row]).toEqual([...prompts[row]!, ...said[row]!])
              expect(masks[row]).toEqual([...prompts[row]!.map(() => 0), ...said[row]!.map(() => 1)])
              if (turn.get(row) === 0) continue
              expect(prompts[row]!.slice(0, full[row - 1]!.length)).toEqual(full[row - 1])
              // Of all tokens so far, those of the policy's turns are its own, one after the other.
              const own = maskOfSpans(spans.get(row)!, prompts[row]!.length)
              const first = row - turn.get(row)!
              expect(prompts[row]!.filter((_, t) => own[t] === 1)).toEqual(said.slice(first, row).flat())
            }
          }
        },
      ),
      { numRuns: 25 },
    )
  })

  it('output of 100 MB is truncated before rendering, and the conversation continues', async () => {
    const flood = 'a'.repeat(100_000_000)
    const run = LLMCollector({
      ...setup('chatml', () => flood, 3),
      key: keyFromSeed(1),
      concurrent: { tasks: 1, maxInFlight: 2 },
    }).begin()
    const taken = orThrow(await run.next())
    if (taken._tag !== 'Batch') throw new Error('there is a batch')
    using batch = taken.batch
    expect(batch.value.batchShape).toEqual([6])
    expect(Math.max(...rowsAt(batch.value, 'tokens', 'full').map((row) => row.length))).toBeLessThan(1000)
    await run.close()
  })
})
