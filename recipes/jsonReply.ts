/** Replies in JSON: a pretrained model learns to answer with nothing but a JSON object. */
import * as T from 'tandem-rl'
import { envOfTask } from 'tandem-rl/envs'

const KEYS = ['name', 'color', 'size', 'use', 'place', 'price', 'weight', 'age']

/** Things of the evaluation. The tasks of training have none of them. */
const HELD_OUT = ['lighthouse', 'violin', 'penguin', 'bicycle', 'lemon', 'glacier', 'library', 'candle']
const THINGS = [
  ...['apple', 'river', 'hammer', 'castle', 'tiger', 'teapot', 'mountain', 'bridge', 'carrot', 'piano', 'desert'],
  ...['owl', 'train', 'window', 'forest', 'spoon', 'camera', 'island', 'rose', 'garden', 'clock', 'whale', 'boat'],
  ...['bread', 'mirror', 'tower', 'fox', 'lamp', 'valley', 'drum', 'kite', 'pumpkin', 'school', 'ladder', 'horse'],
]

/** A task for each thing and each pair of keys, in an order that mixes both. */
const tasksOf = (name: string, things: readonly string[]) => {
  const pairs = KEYS.flatMap((first, i) => KEYS.slice(i + 1).map((second) => [first, second] as const))
  const tasks = pairs.flatMap(([first, second]) =>
    things.map((thing) => ({
      id: `${thing} ${first} ${second}`,
      query: `Describe a ${thing}. Reply with only a JSON object, such as {"${first}": "...", "${second}": "..."}`,
      answer: JSON.stringify({ [first]: '', [second]: '' }),
    })),
  )
  const order = T.permutation(T.keyFromSeed(0), tasks.length)
  return T.taskList(
    name,
    Array.from(order, (i) => tasks[i]!),
  ) // a number of the list
}

const objectIn = (reply: string): object | null => {
  try {
    const value: unknown = JSON.parse(reply)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null
  } catch {
    return null // text that is not JSON
  }
}

/** 0.5 for nothing but a JSON object, and 0.25 for each of both keys. */
export const rewardOf = (reply: string, wanted: string): number => {
  const found = objectIn(reply)
  if (found === null) return 0
  const keys = Object.keys(JSON.parse(wanted) as object) // of `tasksOf`
  return 0.5 + 0.25 * keys.filter((key) => Object.hasOwn(found, key)).length
}

const env = (source: T.TaskSource) => (tasks: T.TaskContext) =>
  T.MultiTurnEnv({
    source,
    ...tasks,
    maxTurns: 1,
    solvedAt: 0.5,
    reply: ({ answer, task }) => ({ done: true, reward: rewardOf(answer, task.answer) }),
  })

export const recipe = T.defineRecipe({
  name: 'jsonReply',
  summary: 'Teach a pretrained model (--model model.gguf) to reply with nothing but a JSON object.',
  settings: T.withDefaults(T.policySettings, {
    steps: 12,
    tasks: { prompts: 8, group: 8 },
    sampling: { maxNewTokens: 64 },
    keep: { evalTasks: 200, evalEvery: 6, checkpointEvery: 2 },
  }),
  envOfTask: () => envOfTask(env),
  tasks: () => tasksOf('things', THINGS),
  build: async (settings, context) =>
    T.defineRun(
      T.grpoParts(settings, {
        model: await T.orThrow(T.loadPretrained(settings.model)),
        env: env(tasksOf('things', THINGS)),
        heldOut: [{ name: 'other things', env: env(tasksOf('other things', HELD_OUT)) }],
      }),
      context,
    ),
})
