/** A user who is played by a policy. */
import { keyFromSeed, orThrow, uniformInteger } from '@tandem-rl/base'
import { checkLaws, envLaws, policyFailure, scriptedHistoryPolicy } from '@tandem-rl/testing'
import { type History, History as historyOf, message, appendMessage as say, textOf, toolResult } from '@tandem-rl/text'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { LLMCollector } from '../../../../src/collectors/llmCollector.js'
import type { HistoryAction, HistoryPrompt, Policy } from '../../../../src/data/policy.js'
import { dataSpec } from '../../../../src/data/spec.js'
import { data } from '../../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import { ChatEnv } from '../../../../src/envs/chatEnv.js'
import { DatasetChatEnv } from '../../../../src/envs/datasetChatEnv.js'
import { StepCounter } from '../../../../src/envs/transforms/stepCounter.js'
import { TemplateTransform } from '../../../../src/envs/transforms/templateTransform.js'
import { Tokenizer } from '../../../../src/envs/transforms/tokenizer.js'
import { append, transform } from '../../../../src/envs/transforms/transform.js'
import { CHAT_ML_SPEECH, speaker } from '../../../../test/kit/agents.js'
import {
  answered,
  asking,
  END_OF_TURN,
  freeing,
  itemsAt,
  numbersAt,
  refused,
  replies,
  rowsAt,
  tasks,
  template,
  tokenizer,
} from '../../../../test/kit/conversation.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { type UserSimulatorOptions, userSimulator, userView } from '../../src/multiAgent/userSimulator.js'

useEngine()

const key = keyFromSeed(7)
const spoken = (state: TensorDict, i = 0): readonly string[] =>
  (itemsAt(state, 'history', 'prompt')[i] as History).messages.map((m) => `${m.role}| ${textOf(m)}`).toArray() // by its schema

/** Asks for a number of its key, and stops by one of ten of them. */
const asker = () =>
  scriptedHistoryPolicy({
    answers: (_, own) => {
      const n = uniformInteger(own, 1000)
      return n % 10 === 0 ? `Thanks ${n}. [END] bye` : `And ${n}?`
    },
  })

const chat = (batchSize: number, options: Partial<UserSimulatorOptions> = {}) =>
  pipe(ChatEnv({ batchSize }), append(userSimulator({ policy: asker(), maxTurns: 3, stopMarker: '[END]', ...options })))

const saying = (...answers: readonly string[]) => scriptedHistoryPolicy({ answers })

describe('userSimulator', () => {
  checkLaws(
    it,
    envLaws(
      fc.array(fc.string(), { minLength: 1, maxLength: 3 }).map((queries) => ({
        env: chat(queries.length),
        request: () => asking(...queries),
        act: (state) => replies(...new Array<string>(state.batchShape[0]!).fill('Well.')), // one batch axis
        steps: 5,
      })),
      3,
    ),
  )

  it('writes the next message after each turn of the policy', () =>
    freeing(async (keep) => {
      const policy = saying('Who?', 'Why?')
      const env = chat(1, { policy, persona: 'You are curious.', opening: 'Begin.' })
      const first = await answered(env.reset(asking('Hi'), key))
      const second = keep(await answered(env.step(first, replies('Hello.'))))
      const third = keep(await answered(env.step(second as never, replies('Bob.')))) // a stepped state is a state
      expect(spoken(third)).toEqual(['user| Hi', 'assistant| Hello.', 'user| Who?', 'assistant| Bob.', 'user| Why?'])
      expect(numbersAt(third, 'done')).toEqual([0])
      expect(spoken(policy.calls()[1]!.state)).toEqual([
        'system| You are curious.',
        'user| Begin.',
        'assistant| Hi',
        'user| Hello.',
        'assistant| Who?',
        'user| Bob.',
      ])
    }))

  it.each<[string, readonly string[], readonly [number, number]]>([
    ['Fine. [END]', ['user| Hi', 'assistant| Hello.', 'user| Fine. '], [1, 0]],
    ['[END]', ['user| Hi', 'assistant| Hello.'], [1, 0]],
    ['More [EN', ['user| Hi', 'assistant| Hello.', 'user| More [EN'], [0, 0]],
  ])('a message %j is followed by %j', (text, expected, ends) =>
    freeing(async (keep) => {
      const env = chat(1, { policy: saying(text) })
      const next = keep(await answered(env.step(await answered(env.reset(asking('Hi'), key)), replies('Hello.'))))
      expect(spoken(next)).toEqual(expected)
      expect([numbersAt(next, 'terminated'), numbersAt(next, 'truncated')].flat()).toEqual(ends)
    }),
  )

  it('cuts an episode off where the policy has answered the last message, without another call', () =>
    freeing(async (keep) => {
      const policy = saying('Who?')
      const env = chat(1, { policy, maxTurns: 1 })
      const second = keep(await answered(env.step(await answered(env.reset(asking('Hi'), key)), replies('Hello.'))))
      const third = keep(await answered(env.step(second as never, replies('Bob.')))) // a stepped state is a state
      expect([numbersAt(second, 'truncated'), numbersAt(third, 'truncated'), numbersAt(third, 'done')]).toEqual([
        [0],
        [1],
        [1],
      ])
      expect(spoken(third).at(-1)).toBe('assistant| Bob.')
      expect(policy.calls()).toHaveLength(1)
    }))

  it('adds no message in a finished episode, nor after the result of a tool', () =>
    freeing(async (keep) => {
      const tool = transform<null, HistoryPrompt, HistoryPrompt>({
        name: 'tool',
        initial: null,
        adds: { history: { prompt: dataSpec<History>('History') } },
        step: (next) => {
          const called = get(next, 'history', 'prompt').items.map((history) =>
            textOf(history.messages.last()!) === 'call'
              ? say(history, toolResult({ name: 't', arguments: {} }, '4'))
              : history,
          )
          return TE.right([TensorDict({ history: { prompt: data(called) } }, next.batchShape), null])
        },
      })
      const policy = saying('So?')
      const user = () => append(userSimulator({ policy, maxTurns: 3 }))
      const env = pipe(ChatEnv({ batchSize: 2 }), append(tool), user())
      const next = keep(
        await answered(env.step(await answered(env.reset(asking('a', 'b'), key)), replies('call', 'x'))),
      )
      expect([spoken(next, 0).at(-1), spoken(next, 1).at(-1)]).toEqual(['tool| 4', 'user| So?'])
      const short = pipe(ChatEnv({ batchSize: 1 }), append(StepCounter({ maxSteps: 1 })), user())
      const over = keep(await answered(short.step(keep(await answered(short.reset(asking('a'), key))), replies('x'))))
      expect(spoken(over).at(-1)).toBe('assistant| x')
      expect(policy.calls()).toHaveLength(1)
    }))

  it("law: a user's messages do not depend on the rest of the batch", async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(1000), fc.integer({ min: 2, max: 4 }), (seed, size) =>
        freeing(async (keep) => {
          const env = chat(size, { maxCalls: 2 })
          const queries = Array.from({ length: size }, (_, i) => `q${i}`)
          const first = await answered(env.reset(asking(...queries), keyFromSeed(seed)))
          const next = keep(await answered(env.step(first, replies(...queries))))
          const alone = chat(1)
          const twin = await answered(alone.reset(asking('q0'), keyFromSeed(seed)))
          const own = keep(await answered(alone.step(twin, replies('q0'))))
          expect(spoken(next, 0)).toEqual(spoken(own))
          expect(new Set(queries.map((_, i) => spoken(next, i).at(-1)?.slice(5))).size).toBe(size) // keys of their own
        }),
      ),
      { numRuns: 10 },
    )
  })

  it('makes personas of the first state of each conversation', async () => {
    const policy = saying('a', 'b')
    const persona = (element: TensorDict) => `You asked: ${itemsAt(element, 'query')[0]}`
    const env = chat(2, { policy, persona })
    const state = await answered(env.reset(asking('one', 'two'), key))
    expect(itemsAt(state, 'simulatedUser', 'persona')).toEqual(['You asked: one', 'You asked: two'])
  })

  it('fails the step where the policy of a user fails, with its failure', async () => {
    const down = policyFailure('no server', 'user', 'infrastructure')
    const policy = scriptedHistoryPolicy({
      answers: () => 'x',
      faults: (call) => (call === 1 ? { _tag: 'Fail', failure: down } : undefined),
    })
    const env = chat(2, { policy })
    const failure = await refused(env.step(await answered(env.reset(asking('a', 'b'), key)), replies('x', 'y')))
    expect(failure).toMatchObject({
      env: 'userSimulator',
      reason: 'the simulated user of conversation 1 failed',
      cause: down,
    })
  })

  it('gives the signal of the step to its policy, and asks no more once it is aborted', async () => {
    const controller = new AbortController()
    const asked: boolean[] = []
    const stubborn: Policy<HistoryPrompt, HistoryAction> = {
      name: 'stubborn',
      act: (_td, _key, options) => async () => {
        asked.push(options?.signal !== undefined)
        controller.abort()
        return { _tag: 'Left', left: policyFailure('called off', 'stubborn', 'cancelled') }
      },
    }
    const env = chat(3, { policy: stubborn, maxCalls: 1 })
    const state = await answered(env.reset(asking('a', 'b', 'c'), key))
    await refused(env.step(state, replies('x', 'y', 'z'), { signal: controller.signal }))
    expect(asked).toEqual([true])
  })

  it('refuses all wrong options at once', () => {
    expect(() => chat(1, { maxTurns: 0, maxCalls: 0.5, stopMarker: '' })).toThrow(
      'userSimulator: maxTurns must be at least 1, got 0; maxCalls must be at least 1, got 0.5; stopMarker is empty: every message would be the last',
    )
  })

  it('law: in both collectors, user messages are masked out of the loss, and tokens continue', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(1000), async (seed) => {
        const env = (task: number) =>
          pipe(
            DatasetChatEnv({ source: tasks(5), prompts: 1, repeats: 2, start: task }),
            append(userSimulator({ policy: asker(), maxTurns: 2, stopMarker: '[END]' })),
            append(TemplateTransform({ template, endOfTurn: END_OF_TURN })),
            append(Tokenizer({ tokenizer })),
          )
        const check = (batch: TensorDict): void => {
          const [full, said] = [rowsAt(batch, 'tokens', 'full'), rowsAt(batch, 'tokens', 'response')]
          const [masks, turns] = [rowsAt(batch, 'masks', 'assistant'), itemsAt(batch, 'turn') as readonly number[]] // by its schema
          for (const [row, ids] of full.entries()) {
            expect(ids.filter((_, t) => masks[row]![t] === 1)).toEqual(said[row])
            if (turns[row] === 0) continue
            expect(ids.slice(0, full[row - 1]!.length)).toEqual(full[row - 1])
            expect(tokenizer.decode(ids.slice(full[row - 1]!.length), 'keep')).toMatch(
              /^\n<\|im_start\|>user\nAnd \d+\?<\|im_end\|>/,
            )
          }
        }
        const policy = speaker(CHAT_ML_SPEECH)
        const collector = LLMCollector({ env: env(0), policy, key: keyFromSeed(seed) })
        {
          using batch = orThrow(await collector.collect(collector.start)()).batch
          check(batch.value)
        }
        for await (const batch of LLMCollector({
          env,
          policy,
          key: keyFromSeed(seed),
          concurrent: { tasks: 1, maxInFlight: 2 },
        }))
          check(batch)
      }),
      { numRuns: 3 },
    )
  })
})

describe('userView', () => {
  it('shows a user its own messages and the replies, without tools and system prompts', () => {
    const call = { name: 't', arguments: {} }
    const history = historyOf([
      message('system', 'secret'),
      message('user', 'Hi'),
      message('assistant', '', { toolCalls: [call], reasoning: 'secret' }),
      toolResult(call, 'secret'),
      message('assistant', 'Hello', { reasoning: 'secret' }),
    ])
    expect(
      userView(history)
        .messages.map((m) => [m.role, textOf(m)])
        .toArray(),
    ).toEqual([
      ['assistant', 'Hi'],
      ['user', 'Hello'],
    ])
    expect(JSON.stringify(userView(history))).not.toContain('secret')
  })

  it('law: the view grows as the conversation does', () => {
    const each = fc.tuple(fc.constantFrom('user', 'assistant', 'tool'), fc.string())
    fc.assert(
      fc.property(fc.array(each, { maxLength: 8 }), fc.nat(8), (pairs, cut) => {
        const all = pairs.map(([role, text]) => message(role, text))
        const [whole, part] = [userView(historyOf(all)), userView(historyOf(all.slice(0, cut)))]
        expect(whole.messages.take(part.messages.size).toArray()).toEqual(part.messages.toArray())
      }),
    )
  })
})
