/**
 * The text of a thinking prompt is never learned: what the tokens, the rows of a collector and the
 * gradients of a loss say.
 */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { scriptedPolicy } from '@tandem-rl/testing'
import { chatTemplate, type TokenSpan } from '@tandem-rl/text'
import { valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { LLMCollector } from '../../../src/collectors/llmCollector.js'
import { trajectoryReturns } from '../../../src/collectors/rollouts/turnRows.js'
import type { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { maskOfSpans } from '../../../src/data/tokenMasks.js'
import { ChatEnv } from '../../../src/envs/chatEnv.js'
import { DatasetChatEnv } from '../../../src/envs/datasetChatEnv.js'
import { AddThinkingPrompt, rewardAtMost } from '../../../src/envs/transforms/addThinkingPrompt.js'
import { GSM8KRewardParser } from '../../../src/envs/transforms/answerParsers.js'
import { StepCounter } from '../../../src/envs/transforms/stepCounter.js'
import { TemplateTransform } from '../../../src/envs/transforms/templateTransform.js'
import { Tokenizer } from '../../../src/envs/transforms/tokenizer.js'
import { append } from '../../../src/envs/transforms/transform.js'
import { GRPOLoss } from '../../../src/objectives/grpoLoss.js'
import { totalLoss } from '../../../src/objectives/loss.js'
import {
  answered,
  asking,
  CHAT_ML,
  END,
  END_OF_TURN,
  freeing,
  itemsAt,
  numbersAt,
  refused,
  rowsAt,
  sampled,
  tasks,
  template,
  tokenizer,
} from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'
import { learnedRows } from '../../kit/learners.js'

useEngine()

const key = keyFromSeed(8)
const PROMPT = ' Hm, wait.'
const EDITS = ['close', 'continue', 'no'] as const
type Edit = (typeof EDITS)[number]

const rendered = [
  append(TemplateTransform({ template, endOfTurn: END_OF_TURN })),
  append(Tokenizer({ tokenizer })),
] as const

const thinking = (editLastTurn: Edit) =>
  pipe(
    ChatEnv({ batchSize: 1 }),
    append(AddThinkingPrompt({ cond: rewardAtMost(1), prompt: PROMPT, editLastTurn })),
    ...rendered,
  )

const spansOf = (state: TensorDict): readonly TokenSpan[] =>
  itemsAt(state, 'tokens', 'spans')[0] as readonly TokenSpan[] // by its schema
const idsOf = (state: TensorDict): readonly number[] => rowsAt(state, 'tokens', 'prompt')[0]!
const textOf = (state: TensorDict): string => itemsAt(state, 'text', 'prompt')[0] as string // by its schema
const masked = (state: TensorDict): readonly number[] => {
  const mask = maskOfSpans(spansOf(state), idsOf(state).length)
  return idsOf(state).filter((_, t) => mask[t] === 1)
}

const commonLength = (a: readonly number[], b: readonly number[]): number => {
  const at = a.findIndex((id, t) => id !== b[t])
  return at < 0 ? a.length : at
}

/** Replies with and without an answer; any letters, cut into tokens in any way. */
const reply = fc
  .tuple(
    fc.constantFrom('so ', 'pens \u00e9\ud83d\ude00', '', 'a<answer>1</answer>b'),
    fc.constantFrom('', '<answer>4</answer>', '<answer>4'),
    fc.boolean(),
    fc.boolean(),
  )
  .map(([thought, answer, isSpelled, isEnded]) => {
    const text = `${thought}${answer}`
    const ids = isSpelled
      ? Array.from(text, (letter) => Array.from(tokenizer.encode(letter))).flat()
      : Array.from(tokenizer.encode(text))
    return isEnded ? [...ids, END] : ids
  })

describe('the tokens of a thinking prompt', () => {
  it.each(EDITS)(
    "with editLastTurn '%s' are nobody's: what is masked is the beginning of each reply, as it was sampled",
    async (edit) => {
      const law = fc.asyncProperty(fc.array(reply, { minLength: 1, maxLength: 3 }), (turns) =>
        freeing(async (keep) => {
          const env = thinking(edit)
          let state = keep(await answered(env.reset(asking('How many pens?'), key)))
          let own: readonly number[] = []
          for (const ids of turns) {
            const before = idsOf(state)
            state = keep(await answered(env.step(state, sampled(ids))))
            const after = idsOf(state)
            expect(after.slice(0, before.length)).toEqual(before)
            const kept = masked(state).slice(own.length)
            expect(masked(state).slice(0, own.length)).toEqual(own)
            expect(kept).toEqual(ids.slice(0, kept.length))
            if (edit === 'no') expect(kept).toEqual(ids)
            expect(commonLength(after.slice(before.length), ids)).toBeGreaterThanOrEqual(kept.length)
            own = masked(state)
            expect(tokenizer.decode(after, 'keep')).toBe(textOf(state))
            expect(textOf(state).split(PROMPT).length - 1).toBe(turns.indexOf(ids) + 1)
          }
        }),
      )
      await fc.assert(law, { numRuns: 12 })
    },
  )

  it('a token that reaches over the border of the answer is left out, and its letters in front of it are not lost', () =>
    freeing(async (keep) => {
      const [left, right] = ['so', '<answer>4</answer>']
      const joined = Array.from({ length: tokenizer.vocabularySize }, (_, id) => id).filter((id) => {
        const text = tokenizer.decode([id], 'keep')
        return text.length > 1 && right.startsWith(text.slice(1)) && text[0] === '>'
      })
      const env = thinking('close')
      const state = keep(await answered(env.reset(asking('?'), key)))
      for (const id of joined) {
        const over = tokenizer.decode([id], 'keep')
        const ids = [...tokenizer.encode(left), id, ...tokenizer.encode(right.slice(over.length - 1)), END]
        const next = keep(await answered(env.step(state, sampled(ids))))
        expect(masked(next)).toEqual(Array.from(tokenizer.encode(left)))
        expect(textOf(next)).toContain(`${left}>${PROMPT}${END_OF_TURN}`)
      }
      expect(joined.length).toBeGreaterThan(0)
    }))

  it('a template that drops old thoughts cannot show what was kept of a reply, and says so', () =>
    freeing(async (keep) => {
      const dropping = orThrow(
        chatTemplate(CHAT_ML.replace('message.content +', "message.content.split('</think>')[-1] +")),
      )
      const env = pipe(
        ChatEnv({ batchSize: 1 }),
        append(AddThinkingPrompt({ cond: rewardAtMost(1), prompt: PROMPT })),
        append(TemplateTransform({ template: dropping, endOfTurn: END_OF_TURN })),
        append(Tokenizer({ tokenizer })),
      )
      const state = keep(await answered(env.reset(asking('?'), key)))
      const said = [...tokenizer.encode('<think>a</think><answer>4</answer>'), END]
      expect((await refused(env.step(state, sampled(said)))).reason).toContain('rewrites what the policy has written')
    }))
})

const WRONG = 'so <answer>5</answer>'
const RIGHT = '<answer>0</answer>'
const ids = (text: string): readonly number[] => [...tokenizer.encode(text), END]

/**
 * Two members of a group, of at most three turns each, with the texts that they say, turn by turn.
 */
const collected = async (edit: Edit, ...texts: readonly string[]) => {
  const env = pipe(
    DatasetChatEnv({ source: tasks(1), prompts: 1, repeats: 2 }),
    append(StepCounter({ maxSteps: 3 })),
    append(GSM8KRewardParser()),
    append(AddThinkingPrompt({ cond: rewardAtMost(0.5), prompt: PROMPT, editLastTurn: edit })),
    ...rendered,
  )
  const policy = scriptedPolicy({ answers: texts.map(ids) })
  const { collect, start } = LLMCollector({ env, policy, key })
  return orThrow(await collect(start)()).batch
}

describe('rows of a collector', () => {
  it.each(EDITS)("with editLastTurn '%s' learn what was sampled, and have a gradient nowhere else", async (edit) => {
    using owned = await collected(edit, WRONG, RIGHT, ` ${RIGHT}`) // the first member thinks again
    const batch = owned.value
    const td = batch as TensorDict
    const rows = learnedRows(batch, 2)
    const completions = rows.completions.map((row) => Array.from(row))
    expect(completions[0]).toEqual(ids(WRONG)) // the turn itself, as it was sampled
    expect(tokenizer.decode(rows.prompts[1]!, 'keep')).toContain(PROMPT)
    for (const row of completions) expect(tokenizer.decode(row, 'keep')).not.toContain(PROMPT)

    const full = rowsAt(td, 'tokens', 'full')
    const assistant = rowsAt(td, 'masks', 'assistant')
    const width = Math.max(...full.map((row) => row.length))
    const padded = (list: readonly (readonly number[])[], filler: number): tf.Tensor2D =>
      tf.tensor2d(list.map((row) => [...row, ...new Array<number>(width - row.length).fill(filler)]))
    const old = rowsAt(td, 'logProbs', 'full').map((row) => row.map((x) => (Number.isNaN(x) ? -1 : x)))
    let gradient: readonly (readonly number[])[] = []
    scope(() => {
      const advantages = tf.tensor2d(full.map((_, i) => [i % 2 === 0 ? 1 : -1]))
      const { grads } = valueAndGrad({ x: padded(old, -1) }, ({ x }) => {
        const mask = padded(assistant, 0)
        const output = GRPOLoss().apply({ logProbs: x }, { oldLogProbs: padded(old, -1), mask, advantages })
        return { value: totalLoss(output), aux: {} }
      })
      gradient = grads.x!.arraySync() as number[][] // of shape [B, T], as x is
      return []
    })
    for (const [i, row] of full.entries()) {
      const learned = row.filter((_, t) => gradient[i]![t] !== 0)
      expect(learned).toEqual(completions[i])
      expect(learned.length).toBeGreaterThan(0)
    }
  })

  it('an episode is paid for its last answer alone, and a step counter still ends it', async () => {
    using owned = await collected('close', WRONG, WRONG, WRONG, RIGHT, WRONG)
    const td = owned.value as TensorDict
    const column = (name: string): readonly number[] => numbersAt(td, 'next', name).map((x) => Math.fround(x))
    expect(trajectoryReturns(owned.value).map(({ rows }) => rows)).toEqual([
      [0, 1, 2],
      [3, 4],
    ])
    expect(column('reward')).toEqual([0, 0, 0.1, 0, 1].map(Math.fround))
    expect(column('terminated')).toEqual([0, 0, 1, 0, 1])
    expect(column('truncated')).toEqual([0, 0, 1, 0, 0])
    const last = rowsAt(td, 'next', 'tokens', 'prompt')[2]!
    expect(tokenizer.decode(last, 'keep').split(PROMPT).length - 1).toBe(2) // no prompt where the episode has ended
  })
})
