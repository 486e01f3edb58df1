/** The run of the page: the word problems of `npm start`, with a reward that may be edited. */
import {
  type AnyRun,
  append,
  child,
  defineRun,
  GSM8KEnv,
  grpoParts,
  keyFromSeed,
  loadPretrained,
  orThrow,
  pipe,
  policySettings,
  rewardTransform,
  shuffled,
  trainingTasks,
} from 'tandem-rl'
import { gsm8kAnswerReward } from 'tandem-rl/rewards'
import type { Choices } from './messages.js'
import { rewardOf } from './reward.js'

type AnswerReward = ReturnType<typeof gsm8kAnswerReward>

/** A reward with the parts of another one, and the value of the current expression. */
const editedReward = (base: AnswerReward, expression: () => string): AnswerReward => ({
  ...base,
  range: [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY],
  score: (answered) => {
    const scored = base.score(answered)
    const { right = 0, answer = 0, think = 0 } = scored.parts
    const reply = answered.history.messages.last()?.content ?? ''
    const words = typeof reply === 'string' ? reply.split(/\s+/).filter((word) => word !== '').length : 0
    return { ...scored, reward: rewardOf(expression(), { right, answer, think, words }) }
  },
})

/** Differences from the defaults of the recipe, which are for a machine that computes faster. */
const SMALLER = { tasks: { prompts: 16, group: 8 }, keep: { evalEvery: 5, evalTasks: 100, checkpointEvery: 5 } }

/** The settings of the run, with all defaults of the recipe. */
export const settingsOf = ({ seed, steps, settings }: Choices) => ({
  ...policySettings.parse({ ...SMALLER, ...settings, seed, steps }),
  dataset: null,
  evalDataset: null,
})

/** Builds the run. `reward` is read at every answer, so an edit applies from the next one on. */
export const pageRun = async (settings: ReturnType<typeof settingsOf>, reward: () => string): Promise<AnyRun> => {
  const model = orThrow(await loadPretrained(settings.model)())
  const key = keyFromSeed(settings.seed)
  const data = orThrow(await trainingTasks(settings, child(child(key, 'tasks'), 'word problems'))())
  const source = shuffled(data.train, child(key, 'tasks'))
  const edited = rewardTransform({ reward: editedReward(gsm8kAnswerReward(), reward), when: 'turn' })
  return defineRun(
    grpoParts(settings, {
      model,
      env: (tasks) => pipe(GSM8KEnv({ source, ...tasks, computeReward: false }), append(edited)),
      heldOut: [{ env: (tasks) => GSM8KEnv({ source: data.heldOut, ...tasks }), tasks: data.heldOutTasks }],
    }),
  )
}
