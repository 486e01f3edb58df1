/** Short sentences: a pretrained model learns to describe a thing in at most ten words. */
import * as T from 'tandem-rl'
import { envOfTask } from 'tandem-rl/envs'

const LONGEST = 10

/** Things and adjectives of the evaluation. The tasks of training have none of them. */
const HELD_OUT = {
  things: ['lighthouse', 'violin', 'penguin', 'bicycle', 'lemon', 'glacier', 'library', 'candle', 'parrot', 'ship'],
  adjectives: [
    ...['broken', 'yellow', 'quiet', 'heavy', 'strange', 'clean', 'tiny', 'famous', 'wooden', 'warm'],
    ...['lost', 'purple', 'loud', 'cheap', 'round', 'dusty', 'tall', 'local', 'modern', 'wild'],
  ],
}
const TRAINING = {
  things: [
    ...['apple', 'river', 'hammer', 'castle', 'tiger', 'teapot', 'mountain', 'bridge', 'carrot', 'piano', 'desert'],
    ...['owl', 'train', 'window', 'forest', 'spoon', 'camera', 'island', 'rose', 'garden', 'clock', 'whale'],
  ],
  adjectives: [
    ...['small', 'big', 'red', 'green', 'old', 'new', 'slow', 'beautiful', 'dark', 'cold'],
    ...['young', 'blue', 'dirty', 'simple', 'white', 'dry', 'rare', 'empty', 'soft', 'distant'],
  ],
}

/** A task for each adjective and thing, in an order that mixes both. */
const tasksOf = (name: string, { things, adjectives }: typeof TRAINING) => {
  const tasks = things.flatMap((thing) =>
    adjectives.map((adjective) => ({
      id: `${adjective} ${thing}`,
      query: `Describe a ${adjective} ${thing} in one short sentence of at most ten words, without commas.`,
      answer: thing,
    })),
  )
  const order = T.permutation(T.keyFromSeed(0), tasks.length)
  return T.taskList(
    name,
    Array.from(order, (i) => tasks[i]!),
  ) // a number of the list
}

/** 0.5 for one sentence of three to ten words without a comma, and 0.5 more with its thing. */
export const rewardOf = (reply: string, thing: string): number => {
  const [, sentence = ''] = /^([^,.!?\n]+)\.$/.exec(reply.trim()) ?? []
  const words = sentence.toLowerCase().split(/\s+/)
  if (words.length < 3 || words.length > LONGEST) return 0
  return words.includes(thing) ? 1 : 0.5
}

const env = (source: T.TaskSource) => (tasks: T.TaskContext) =>
  T.SingleTurnEnv({ source, ...tasks, reward: ({ prediction, answer }) => rewardOf(prediction, answer) })

const training = tasksOf('described things', TRAINING)

export const recipe = T.defineRecipe({
  name: 'shortSentence',
  summary: 'Teach a pretrained model (--model model.gguf) to describe a thing in at most ten words.',
  defaults: {
    steps: 12,
    tasks: { prompts: 8, group: 8 },
    sampling: { maxNewTokens: 48 },
    keep: { evalTasks: 200, evalEvery: 6, checkpointEvery: 2 },
  },
  envOfTask: () => envOfTask(env),
  tasks: () => training,
  env: env(training),
  heldOut: [{ name: 'other things', env: env(tasksOf('other described things', HELD_OUT)) }],
})
