/** Models from scratch learn their task, report progress, and are reproducible. */
import { keyFromSeed } from '@tandem-rl/base'
import { History, message } from '@tandem-rl/text'
import { expect, it } from 'vitest'
import { type MakeModelEvent, type MakeModelOptions, makeModel } from '../../src/run/define/makeModel.js'
import { sampleCompletions } from '../../src/run/parts/sample.js'
import { useEngine } from '../kit/engine.js'
import { leftOf, rightOf } from '../kit/results.js'

useEngine()

const WORDS = ['one', 'two', 'six', 'ten']
const reversed = (word: string): string => [...word].reverse().join('')

const conversation = (index: number): History => {
  const word = WORDS[index % WORDS.length]!
  return History([message('user', word), message('assistant', reversed(word))])
}

const options = (changes: Partial<MakeModelOptions> = {}): MakeModelOptions => ({
  family: 'qwen2',
  sizes: { hiddenSize: 32, layers: 2, heads: 2, maxPositions: 64 },
  tokenizer: {
    texts: WORDS.map((word) => `user\n${word}\nassistant\n${reversed(word)}\n`),
    vocabularySize: 262,
  },
  key: keyFromSeed(3),
  stages: [
    { name: 'first', conversation, conversations: 640, batch: 8, learningRate: 1e-2, warmUpSteps: 4 },
    { name: 'second', conversation, conversations: 8, batch: 4, learningRate: 1e-3 },
  ],
  ...changes,
})

it('makes a model that does its task, and reports tokenizer, model, steps and stages', async () => {
  const events: MakeModelEvent[] = []
  const model = await rightOf(makeModel(options(), (event) => events.push(event)))
  const types = events.map(({ type }) => type)
  expect(types).toEqual([
    ...Array.from({ length: 3 }, () => 'tokenizer'),
    'model',
    ...Array.from({ length: 80 }, () => 'step'),
    'stage',
    ...['step', 'step', 'stage'],
  ])
  const steps = events.filter((event) => event.type === 'step')
  expect(steps[0]).toMatchObject({ stage: 'first', step: 1, steps: 80 })
  expect(steps[0]!.nll).toBeCloseTo(Math.log(262), 0)
  expect(steps.at(-1)).toMatchObject({ stage: 'second', step: 2, steps: 2 })
  expect(steps.at(-1)!.nll).toBeLessThan(0.1)
  expect(events.at(-1)).toEqual({ type: 'stage', stage: 'second', model })
  for (const word of WORDS) {
    const sampling = { temperature: 0, maxNewTokens: 8 }
    const [answer] = await rightOf(sampleCompletions(model, word, { count: 1, key: keyFromSeed(0), sampling }))
    expect(answer?.text).toContain(reversed(word))
  }
})

it('equal options give equal weights', async () => {
  const stages = [{ name: 'only', conversation, conversations: 12, batch: 4, learningRate: 1e-2 }]
  const [one, two] = [await rightOf(makeModel(options({ stages }))), await rightOf(makeModel(options({ stages })))]
  expect(one.arrays).toEqual(two.arrays)
})

it('without stages is an untrained model', async () => {
  const model = await rightOf(makeModel(options({ stages: [] })))
  expect(model.config.vocabularySize).toBe(262)
})

it('refuses conversations in which the assistant writes nothing', async () => {
  const silent = { name: 's', conversation: () => History([message('user', 'x')]), conversations: 2, learningRate: 1 }
  expect(await leftOf(makeModel(options({ stages: [silent] })))).toMatchObject({
    reason: expect.stringContaining('conversation 0'),
  })
})

it.each([
  [{ conversations: 0 }, /conversations and batch, got 0 and 64/],
  [{ conversations: 8, batch: 1.5 }, /got 8 and 1.5/],
  [{ conversations: 64, warmUpSteps: 1 }, /has 1 step, so warmUpSteps cannot be 1/],
])('throws for a stage with %j', (wrong, message_) => {
  expect(() => makeModel(options({ stages: [{ name: 's', conversation, learningRate: 1e-3, ...wrong }] }))).toThrow(
    message_,
  )
})
