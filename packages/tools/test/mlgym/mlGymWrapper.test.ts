import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { checkLaws, envLaws, scriptedPolicy } from '@tandem-rl/testing'
import { type History, textOf } from '@tandem-rl/text'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import { afterAll, describe, expect, it } from 'vitest'
import { LLMCollector } from '../../../../src/collectors/llmCollector.js'
import { get, type TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import { TemplateTransform } from '../../../../src/envs/transforms/templateTransform.js'
import { Tokenizer } from '../../../../src/envs/transforms/tokenizer.js'
import { append } from '../../../../src/envs/transforms/transform.js'
import {
  answered,
  END_OF_TURN,
  empty,
  freeing,
  itemsAt,
  numbersAt,
  refused,
  replies,
  rowsAt,
  template,
  tokenizer,
} from '../../../../test/kit/conversation.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { countingMLGym, RECORDING } from '../../../../test/kit/mlgym.js'
import { makeMLGym } from '../../src/mlgym/makeMLGym.js'
import { type MLGymEpisode, MLGymWrapper, type MLGymWrapperOptions } from '../../src/mlgym/mlGymWrapper.js'
import { type MLGym, recordedMLGym } from '../../src/mlgym/session.js'
import { mlgymSessions } from '../../src/mlgym/sessions.js'

useEngine()

const key = keyFromSeed(4)
const run = (command: string) => `I think.\n\`\`\`\n${command}\n\`\`\``
const wrapper = (mlgym: MLGym, options: Partial<MLGymWrapperOptions> = {}) =>
  MLGymWrapper({ sessions: mlgymSessions({ mlgym, maxSessions: 3 }), tasks: ['prisonersDilemma'], ...options })
const last = (state: TensorDict, i = 0): string =>
  textOf((itemsAt(state, 'history', 'prompt')[i] as History).messages.last()!) // by its schema

/** Plays messages one after the other; gives all states. */
const playAll = async (env: ReturnType<typeof wrapper>, texts: readonly string[], keep: <T>(value: T) => T) => {
  const states: TensorDict[] = [keep(await answered(env.reset(empty(env.batchSize), key)))]
  for (const text of texts) {
    const written = replies(...new Array<string>(env.batchSize).fill(text))
    states.push(keep(await answered(env.step(states.at(-1) as never, written)))) // a stepped state is a state
  }
  return states
}

describe('MLGymWrapper, with a recorded session', () => {
  const commands = RECORDING.exchanges.map(({ command }) => run(command.replace(" << 'end_of_edit'", '')))
  const recorded = (options: Partial<MLGymWrapperOptions> = {}) =>
    wrapper(recordedMLGym([RECORDING]), { maxSteps: 5, ...options })

  it('shows the task, runs each command as MLGym takes it, and pays what an evaluation is above the last', () =>
    freeing(async (keep) => {
      const states = await playAll(recorded(), commands, keep)
      const rewards = states.slice(1).map((state) => numbersAt(state, 'reward')[0]!)
      expect(rewards).toEqual([0, 0, -0.25, 0, 0.5])
      expect(rewards.reduce((sum, reward) => sum + reward, 0)).toBe(2.5 - 2.25)
      expect(states.slice(1).map((state) => numbersAt(state, 'terminated')[0])).toEqual([0, 0, 0, 0, 1])
      expect(last(states[0]!)).toContain('Write target.py with a function row_strategy(history)')
      expect(last(states[1]!)).toBe(
        'evaluate.py\nstrategy.py\ntarget.py\n\n(Current Step: 1, Remaining Steps: 4)\n(Open file: n/a)\n(Current directory: /workspace)\nbash-$',
      )
      expect(last(states[2]!)).toContain('The command ran, and printed nothing.')
      expect((itemsAt(states[5]!, 'mlgym')[0] as MLGymEpisode).exitStatus).toBe('submitted') // by its schema
    }))

  it('pays nothing for a score that a command prints itself', () =>
    freeing(async (keep) => {
      const states = await playAll(recorded(), commands.slice(0, 4), keep)
      expect(last(states[4]!)).toContain("Evaluation Score: {'Score': 1000000.0}")
      expect(numbersAt(states[4]!, 'reward')).toEqual([0])
    }))

  it('counts less as better where it is told to, and another number by its name', () =>
    freeing(async (keep) => {
      const states = await playAll(recorded({ metric: { better: 'lower' } }), commands.slice(0, 3), keep)
      expect(numbersAt(states[3]!, 'reward')).toEqual([0.25])
      const others = await playAll(recorded({ metric: { name: 'accuracy' } }), commands.slice(0, 3), keep)
      expect(numbersAt(others[3]!, 'reward')).toEqual([0])
    }))

  it('fails, with both, where something else is asked than was recorded', async () => {
    const env = recorded()
    const first = await answered(env.reset(empty(1), key))
    const failure = await refused(env.step(first, replies(run('rm -rf /'))))
    expect(failure.reason).toBe(
      'conversation 0: not as recorded: the recording has at position 0 the command "ls -F", but the request has "rm -rf /"',
    )
    expect((await refused(recorded({ maxSteps: 6 }).reset(empty(1), key))).reason).toMatch(
      /maxSteps 5, but the request has 6/,
    )
    expect((await refused(recorded({ tasks: ['chess'] }).reset(empty(1), key))).reason).toMatch(
      /\["prisonersDilemma"\], but the request has "chess"/,
    )
    const short = wrapper(recordedMLGym([{ ...RECORDING, exchanges: [] }]), { maxSteps: 5 })
    expect((await refused(short.step(await answered(short.reset(empty(1), key)), replies(run('ls'))))).reason).toMatch(
      /no further command: null, but the request has "ls"/,
    )
  })
})

describe('MLGymWrapper', () => {
  const mlgym = countingMLGym()
  const sessions = mlgymSessions({ mlgym, maxSessions: 3 })
  afterAll(async () => {
    await sessions.close()
    expect(mlgym.counts().alive).toBe(0)
  })
  const text = fc.constantFrom(run('ls'), run('validate'), run('submit'), 'no command', run(' '))
  checkLaws(
    it,
    envLaws(
      fc
        .tuple(fc.array(text, { minLength: 2, maxLength: 2 }), fc.integer({ min: 1, max: 2 }))
        .map(([texts, batchSize]) => ({
          env: MLGymWrapper({ sessions, tasks: ['a', 'b'], batchSize, rewardWrongFormat: -0.5 }),
          act: (state) => replies(...texts.slice(0, state.batchShape[0])),
          steps: 3,
        })),
      4,
    ),
  )

  it('answers a message without a command by the format, runs nothing, and gives up after so many', () =>
    freeing(async (keep) => {
      const own = countingMLGym()
      const env = wrapper(own, { rewardWrongFormat: -0.5, maxWrong: 2 })
      const states = await playAll(env, ['What?', run('ls'), 'What?', 'Hm.'], keep)
      expect(states.map((state) => itemsAt(state, 'retry')[0])).toEqual([false, true, false, true, true])
      expect(last(states[1]!)).toContain('Nothing was run')
      expect(states.slice(1).map((state) => numbersAt(state, 'reward')[0])).toEqual([-0.5, 0, -0.5, -0.5]) // one command is the baseline's score
      expect(numbersAt(states[4]!, 'terminated')).toEqual([1])
      expect(own.counts()).toEqual({ opened: 1, alive: 0, run: 2 })
    }))

  it('draws one task for a batch, by the key, and names its group', () =>
    freeing(async (keep) => {
      const env = MLGymWrapper({ sessions, tasks: ['a', 'b', 'c'], batchSize: 2 })
      const drawn = new Set<unknown>()
      for (let seed = 0; seed < 20; seed++) {
        const state = keep(await answered(env.reset(empty(2), keyFromSeed(seed))))
        const [one, other] = itemsAt(state, 'query')
        expect(one).toBe(other)
        expect(new Set(itemsAt(state, 'groupId')).size).toBe(1)
        drawn.add(one)
      }
      expect(drawn).toEqual(new Set(['a', 'b', 'c']))
    }))

  it('a container that breaks is a failure, and no reward', async () => {
    const own = countingMLGym()
    const env = wrapper(own)
    const failure = await refused(env.step(await answered(env.reset(empty(1), key)), replies(run('crash'))))
    expect(failure).toMatchObject({ env: 'MLGymWrapper', reason: 'conversation 0: the container is gone' })
    expect(own.counts().alive).toBe(0)
  })

  it('refuses all wrong options at once', () => {
    expect(() =>
      MLGymWrapper({ sessions, tasks: [], maxSteps: 0, maxWrong: 0, rewardWrongFormat: Number.NaN }),
    ).toThrow(
      'MLGymWrapper: tasks is empty; maxSteps must be at least 1, got 0; maxWrong must be at least 1, got 0; rewardWrongFormat must be a number, got NaN',
    )
    expect(() => makeMLGym({ tasks: ['a'], maxSessions: 0 })).toThrow('limit must be at least 1, got 0')
  })

  it('is played by a policy of tokens through both collectors, and what it reads is not learned', async () => {
    const end = tokenizer.idOf(END_OF_TURN)!
    const said = ['ls', 'validate', 'submit'].map((command) => [...tokenizer.encode(run(command)), end])
    const policy = scriptedPolicy({
      answers: (state) =>
        said[
          get(state, 'tokens', 'spans')
            .items.first()!
            .filter(({ origin }) => origin === 'sampled').length
        ]!,
    })
    const env = () =>
      pipe(
        MLGymWrapper({ sessions, tasks: ['a'], batchSize: 2 }),
        append(TemplateTransform({ template, endOfTurn: END_OF_TURN })),
        append(Tokenizer({ tokenizer })),
      )
    const check = (batch: TensorDict): void => {
      const masks = rowsAt(batch, 'masks', 'assistant')
      const learned = rowsAt(batch, 'tokens', 'full').map((ids, row) => ids.filter((_, t) => masks[row]![t] === 1))
      expect(learned).toEqual(rowsAt(batch, 'tokens', 'response'))
      expect(itemsAt(batch, 'turn')).toEqual([0, 1, 2, 0, 1, 2])
      expect(numbersAt(batch, 'next', 'done').filter((done) => done === 1)).toHaveLength(2)
    }
    const collector = LLMCollector({ env: env(), policy, key })
    {
      using batch = orThrow(await collector.collect(collector.start)()).batch
      check(batch.value)
    }
    for await (const batch of LLMCollector({ env, policy, key, concurrent: { tasks: 1, maxInFlight: 2 } })) check(batch)
  })
})
