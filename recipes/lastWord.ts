/** Sentences with a given last word: a pretrained model learns to end where it is asked to. */
import * as T from 'tandem-rl'
import { envOfTask } from 'tandem-rl/envs'

/** Things and last words of the evaluation. The tasks of training have none of them. */
const HELD_OUT = {
  things: ['lighthouse', 'violin', 'penguin', 'bicycle', 'lemon', 'glacier', 'library', 'candle', 'parrot', 'ship'],
  words: [
    ...['evening', 'winter', 'silence', 'river', 'hands', 'together', 'sugar', 'dreams', 'window', 'road'],
    ...['summer', 'alone', 'gold', 'children', 'fire', 'inside', 'stars', 'dinner', 'tomorrow', 'wood'],
  ],
}
const TRAINING = {
  things: [
    ...['apple', 'hammer', 'castle', 'tiger', 'teapot', 'mountain', 'bridge', 'carrot', 'piano', 'desert', 'owl'],
    ...['train', 'forest', 'spoon', 'camera', 'island', 'rose', 'clock', 'whale', 'boat', 'bread', 'mirror'],
  ],
  words: [
    ...['today', 'water', 'home', 'light', 'friends', 'morning', 'always', 'music', 'garden', 'night'],
    ...['city', 'rain', 'money', 'people', 'slowly', 'world', 'sun', 'sea', 'paper', 'school'],
  ],
}

/** A task for each thing and last word, in an order that mixes both. */
const tasksOf = (name: string, { things, words }: typeof TRAINING) => {
  const tasks = things.flatMap((thing) =>
    words.map((word) => ({
      id: `${thing} ${word}`,
      query: `Write one short sentence about a ${thing} that ends with the word "${word}".`,
      answer: `${thing} ${word}`,
    })),
  )
  const order = T.permutation(T.keyFromSeed(0), tasks.length)
  return T.taskList(
    name,
    Array.from(order, (i) => tasks[i]!),
  ) // a number of the list
}

/** 0.5 for one sentence of at least four words with the right last word, and 0.5 for its thing. */
export const rewardOf = (reply: string, wanted: string): number => {
  const [thing = '', last] = wanted.split(' ')
  const sentence = /^([^.!?\n]+)[.!]?$/.exec(reply.trim())?.[1] ?? ''
  const words = sentence.toLowerCase().split(/[\s,;:]+/)
  if (words.length < 4 || words.at(-1) !== last) return 0
  return words.includes(thing) ? 1 : 0.5
}

const env = (source: T.TaskSource) => (tasks: T.TaskContext) =>
  T.SingleTurnEnv({ source, ...tasks, reward: ({ prediction, answer }) => rewardOf(prediction, answer) })

const training = tasksOf('things and words', TRAINING)

export const recipe = T.defineRecipe({
  name: 'lastWord',
  summary: 'Teach a pretrained model (--model model.gguf) to end a sentence with a given word.',
  defaults: {
    steps: 12,
    tasks: { prompts: 8, group: 8 },
    sampling: { maxNewTokens: 48 },
    keep: { evalTasks: 200, evalEvery: 6, checkpointEvery: 2 },
  },
  envOfTask: () => envOfTask(env),
  tasks: () => training,
  env: env(training),
  heldOut: [{ name: 'other things and words', env: env(tasksOf('other things and words', HELD_OUT)) }],
})
