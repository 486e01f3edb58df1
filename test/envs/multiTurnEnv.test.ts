import { keyFromSeed, uniformInteger } from '@tandem-rl/base'
import { checkLaws, envLaws } from '@tandem-rl/testing'
import { type History, textOf } from '@tandem-rl/text'
import { discard } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { taskList } from '../../src/data/task.js'
import { get, type TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { MultiTurnEnv } from '../../src/envs/multiTurnEnv.js'
import { answered, empty, freeing, itemsAt, numbersAt, refused, replies } from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const key = keyFromSeed(8)
const secrets = taskList(
  'secrets',
  [37, 5].map((secret) => ({ query: 'Guess my number from 1 to 100.', answer: `${secret}` })),
)

/** The game of the guide. */
const guessing = () =>
  MultiTurnEnv({
    source: secrets,
    prompts: 1,
    repeats: 2,
    maxTurns: 4,
    reply: ({ task, answer }) => {
      const [guess, secret] = [Number(answer), Number(task.answer)]
      if (guess === secret) return { done: true, reward: 1 }
      return guess < secret ? 'Higher.' : 'Lower.'
    },
  })

/** A game with a drawn state, parts and a last message. */
const dice = () =>
  MultiTurnEnv({
    source: taskList('dice', [{ query: 'How many points?', sides: 6 }]),
    prompts: 2,
    maxTurns: 3,
    initial: (task, stream) => ({ points: uniformInteger(stream, task.sides), rolls: [] as readonly number[] }),
    parts: { hit: 1, brief: 0.5 },
    reply: async ({ task, answer, state, key: stream }) => {
      if (answer === `${state.points}`) return { done: true, reward: { hit: 1, brief: 1 }, message: 'Right.' }
      const roll = uniformInteger(stream, task.sides)
      return { message: `${roll}?`, state: { points: state.points + roll, rolls: [...state.rolls, roll] } }
    },
  })

const lastOf = (state: TensorDict): readonly string[] =>
  (itemsAt(state, 'history', 'prompt') as readonly History[]).map(({ messages }) => textOf(messages.last()!))

describe('MultiTurnEnv', () => {
  it('plays number guessing with hints', () =>
    freeing(async (keep) => {
      const env = guessing()
      const state = keep(await answered(env.reset(empty(2), key)))
      const hinted = keep(await answered(env.step(state, replies('50', '37'))))
      expect([lastOf(hinted), numbersAt(hinted, 'reward'), numbersAt(hinted, 'terminated')]).toEqual([
        ['Lower.', '37'],
        [0, 1],
        [0, 1],
      ])
      const ended = keep(await answered(env.step(hinted, replies('37', '37'))))
      expect([numbersAt(ended, 'reward'), numbersAt(ended, 'success'), numbersAt(ended, 'done')]).toEqual([
        [1, 0],
        [1, 1],
        [1, 1],
      ])
    }))

  it('truncates after maxTurns', () =>
    freeing(async (keep) => {
      const env = guessing()
      let state: TensorDict = keep(await answered(env.reset(empty(2), key)))
      for (let turn = 0; turn < 4; turn++) state = keep(await answered(env.step(state as never, replies('1', '2')))) // of the environment
      expect([numbersAt(state, 'terminated'), numbersAt(state, 'truncated')]).toEqual([
        [0, 0],
        [1, 1],
      ])
    }))

  it('keeps state, draws from its key, and has one typed entry for each part', () =>
    freeing(async (keep) => {
      const env = dice()
      const state = keep(await answered(env.reset(empty(2), key)))
      const [first] = get(state, 'turns', 'state').items.toArray()
      const points: number = first!.points
      const next = keep(await answered(env.step(state, replies(`${points}`, 'none'))))
      expect([lastOf(next)[0], get(next, 'turns', 'state').items.get(1)!.rolls.length]).toEqual(['Right.', 1])
      expect(Array.from(get(next, 'reward').dataSync())).toEqual([1.5, 0])
      expect(Array.from(get(next, 'rewardHit').dataSync())).toEqual([1, 0])
      // @ts-expect-error there is no such part
      expect(() => get(next, 'rewardMiss')).toThrow(/rewardMiss/)
    }))

  it.each<[string, () => unknown, RegExp]>([
    [
      'throws',
      () => {
        throw new Error('no luck')
      },
      /task secrets-0 failed in turn 1: it threw Error: no luck/,
    ],
    ['returns nothing', () => undefined, /it returned undefined: expected a text, a message or a record/],
    ['neither speaks nor ends', () => ({ reward: 1 }), /neither 'message' nor 'done: true'/],
    ['misspells a field', () => ({ Done: true }), /unknown field 'Done': did you mean 'done'\?/],
    ['gives a reward that is no number', () => ({ done: true, reward: 'one' }), /expected a finite number/],
    [
      'keeps a state that is not JSON',
      () => ({ message: 'x', state: { seen: new Map() } }),
      /state\.seen is a value of type object/,
    ],
  ])('fails the step where the function %s', async (_, reply, reason) => {
    const env = MultiTurnEnv({ source: secrets, prompts: 1, maxTurns: 2, reply: reply as never })
    const state = await answered(env.reset(empty(1), key))
    expect((await refused(env.step(state, replies('x')))).reason).toMatch(reason)
    discard(state)
  })

  it('refuses unknown options', () => {
    const options = { source: secrets, prompts: 1, maxTurn: 2, reply: () => '' }
    expect(() => MultiTurnEnv(options as never)).toThrow("unknown option 'maxTurn': did you mean 'maxTurns'?")
  })

  describe('number guessing', () => {
    const guess = fc.constantFrom('1', '37', '99', 'five')
    checkLaws(
      it,
      envLaws(
        fc.tuple(guess, guess).map((said) => ({ env: guessing(), act: () => replies(...said), steps: 3 })),
        3,
      ),
    )
  })

  describe('with a drawn state and parts', () => {
    checkLaws(it, envLaws(fc.constant({ env: dice(), act: () => replies('3', 'x'), steps: 4 }), 3))
  })
})
