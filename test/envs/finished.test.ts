/** Ended episodes earn nothing more, in all environments and transforms with rewards. */
import { keyFromSeed } from '@tandem-rl/base'
import { checkLaws, envLaws } from '@tandem-rl/testing'
import { message } from '@tandem-rl/text'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import type { IfEvalRow } from '../../src/data/datasets/ifEval.js'
import { type RowTask, taskList } from '../../src/data/task.js'
import { data, filledRows, ragged } from '../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { type Env, endedRows } from '../../src/envs/base/env.js'
import { CountdownEnv } from '../../src/envs/countdownEnv.js'
import { DatasetChatEnv } from '../../src/envs/datasetChatEnv.js'
import { GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import { IFEvalEnv } from '../../src/envs/ifEvalEnv.js'
import { makeGSM8KEnv } from '../../src/envs/makeGSM8KEnv.js'
import { MATHEnv } from '../../src/envs/mathEnv.js'
import { gsm8kAnswerReward } from '../../src/envs/rewards/gsm8k.js'
import { formatPenalty } from '../../src/envs/transforms/formatPenalty.js'
import { KLRewardTransform } from '../../src/envs/transforms/klRewardTransform.js'
import { overlongPenalty } from '../../src/envs/transforms/overlongPenalty.js'
import { RewardSum } from '../../src/envs/transforms/rewardSum.js'
import { rewardTransform } from '../../src/envs/transforms/rewardTransform.js'
import { StepCounter } from '../../src/envs/transforms/stepCounter.js'
import { TemplateTransform } from '../../src/envs/transforms/templateTransform.js'
import { tokenBudget } from '../../src/envs/transforms/tokenBudget.js'
import { Tokenizer } from '../../src/envs/transforms/tokenizer.js'
import { append } from '../../src/envs/transforms/transform.js'
import { answered, END_OF_TURN, empty, freeing, numbersAt, tasks, template, tokenizer } from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const key = keyFromSeed(6)
const source = tasks(9)
const rows = taskList<RowTask<IfEvalRow>>('rows', [
  {
    id: 'a',
    query: 'No comma.',
    answer: '',
    row: { key: 1, prompt: 'No comma.', instructions: [{ id: 'punctuation:no_comma', kwargs: {} }] },
  },
])

/** A reply with every view that an environment may read. */
const views = (...texts: readonly string[]): TensorDict => {
  const written = texts.map((text) => tokenizer.encode(text + END_OF_TURN))
  return TensorDict(
    {
      history: { response: data(texts.map((text) => message('assistant', text))) },
      text: { response: data(texts) },
      tokens: { response: ragged('int32', written) },
      logProbs: {
        response: ragged(
          'float32',
          written.map(({ length }) => new Float32Array(length).fill(-1)),
        ),
      },
      sampling: data(texts.map(() => ({ temperature: 1 }))),
    },
    [texts.length],
  )
}

const reference = {
  name: 'two nats',
  score: (_: unknown, completions: ReturnType<typeof ragged<'int32'>>) => async () =>
    ({ _tag: 'Right', right: filledRows(completions, 'float32', -2) }) as const,
}

const chats = () =>
  pipe(DatasetChatEnv({ source, prompts: 1, repeats: 2, start: 1 }), append(StepCounter({ maxSteps: 2 })))
const tokens = () =>
  pipe(chats(), append(TemplateTransform({ template, endOfTurn: END_OF_TURN })), append(Tokenizer({ tokenizer })))

/** Environments with two elements, with their schemas erased. */
const ENVS: Readonly<Record<string, () => Env<object, never>>> = {
  GSM8KEnv: () => GSM8KEnv({ source, prompts: 1, repeats: 2, start: 1 }) as never,
  makeGSM8KEnv: () => makeGSM8KEnv({ source, prompts: 1, repeats: 2, start: 1 }) as never,
  MATHEnv: () => MATHEnv({ source, prompts: 1, repeats: 2, start: 1 }) as never,
  CountdownEnv: () => CountdownEnv({ key, prompts: 1, repeats: 2 }) as never,
  IFEvalEnv: () =>
    IFEvalEnv({ source: rows, prompts: 1, repeats: 2, maxSteps: 2, reward: { detectLanguage: () => 'en' } }) as never,
  rewardTransform: () => pipe(chats(), append(rewardTransform({ reward: gsm8kAnswerReward() }))) as never,
  formatPenalty: () => pipe(chats(), append(formatPenalty({ blocks: ['answer'] }))) as never,
  overlongPenalty: () => pipe(tokens(), append(overlongPenalty({ longest: 8, cache: 8 }))) as never,
  KLRewardTransform: () => pipe(tokens(), append(KLRewardTransform({ reference, shape: 'sum' }))) as never,
  tokenBudget: () =>
    pipe(
      tokens(),
      append(rewardTransform({ reward: gsm8kAnswerReward() })),
      append(tokenBudget({ tokens: 20 })),
    ) as never,
}

/** Replies with which one element ends at once and the other at the limit. */
const ACTION = ['<think>1 + 1</think><answer>2</answer>', 'Two, I think.'] as const

describe.each(Object.entries(ENVS))('%s', (_, make) => {
  const env = () => pipe(make(), append(RewardSum()))

  it('does not pay an element again that has finished', () =>
    freeing(async (keep) => {
      let state: TensorDict = keep(await answered(env().reset(empty(2), key)))
      for (let step = 0; step < 5; step++) {
        const over = endedRows(state, 'done')
        const next = keep(await answered(env().step(state as never, views(...ACTION) as never)))
        for (const [i, ended] of over.entries())
          if (ended) {
            expect(numbersAt(next, 'reward')[i]).toBe(0)
            for (const name of ['episodeReward', 'terminated', 'truncated', 'done'])
              expect([name, numbersAt(next, name)[i]]).toEqual([name, numbersAt(state, name)[i]])
          }
        state = next
      }
      expect(endedRows(state, 'done')).toContain(true)
    }))

  const laws = envLaws(fc.constant({ env: env(), act: () => views(...ACTION) as never, steps: 3 }), 2)
  checkLaws(
    it,
    laws.filter(({ name }) => name.startsWith('pay')),
  )
})
