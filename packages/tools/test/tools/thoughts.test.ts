/** Thoughts are not answers: rewards, tools, games and replies read the text outside of them. */

import { byMention, userView } from '@tandem-rl/agents'
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { parseAction, textArenaGame, ticTacToe } from '@tandem-rl/games/rules'
import { History, type Message, message, type Task } from '@tandem-rl/text'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { taskList } from '../../../../src/data/task.js'
import { data } from '../../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import { ChatEnv } from '../../../../src/envs/chatEnv.js'
import { MultiTurnEnv } from '../../../../src/envs/multiTurnEnv.js'
import { countdownReward } from '../../../../src/envs/rewards/countdown.js'
import { formatReward } from '../../../../src/envs/rewards/format.js'
import { gsm8kAnswerReward } from '../../../../src/envs/rewards/gsm8k.js'
import { mathAnswerOf } from '../../../../src/envs/rewards/math/mathAnswer.js'
import { mathReward } from '../../../../src/envs/rewards/math/mathReward.js'
import type { Reward } from '../../../../src/envs/rewards/reward.js'
import { reward } from '../../../../src/envs/rewards/rewardFunction.js'
import { exactMatch, tokenF1Reward } from '../../../../src/envs/rewards/textMatch.js'
import { thinkReward } from '../../../../src/envs/rewards/toolUse.js'
import { append } from '../../../../src/envs/transforms/transform.js'
import { answered, asking } from '../../../../test/kit/conversation.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { adder } from '../../../../test/kit/tools.js'
import { callsOfText } from '../../src/tools/requestedCalls.js'
import { SimpleToolTransform } from '../../src/tools/simpleToolTransform.js'
import { ToolRegistry } from '../../src/tools/toolRegistry.js'

useEngine()

const key = keyFromSeed(1)

const scoreOf = (of: Reward<Task>, answer: string, reply: Message) =>
  of.score({ task: { id: 'a', query: 'q', answer }, history: History([message('user', 'q'), reply]) })

const GOAL = 'target=5, numbers=2,3'

describe('the answer in thoughts', () => {
  it('is not that of a reply', () => {
    expect(mathAnswerOf('<think>\\boxed{2}</think> the rest', ['block', 'box'])).toBe('')
    expect(mathAnswerOf('\\boxed{2}</think> \\boxed{3}', ['box'])).toBe('3')
  })

  it.each<readonly [name: string, of: Reward<Task>, truth: string, wrong: string, right: string]>([
    ['gsm8kAnswerReward', gsm8kAnswerReward(), '#### 4', '<answer>5</answer>', '<answer>4</answer>'],
    ['mathReward', mathReward(), '4', '\\boxed{5}', '\\boxed{4}'],
    ['countdownReward', countdownReward(), GOAL, '<answer>2 * 3</answer>', '<answer>2 + 3</answer>'],
    ['exactMatch of a block', exactMatch({ read: 'block' }), '4', '<answer>5</answer>', '<answer>4</answer>'],
    ['exactMatch', exactMatch(), '4', '5', '4'],
    ['tokenF1Reward', tokenF1Reward(), '4', '5', '4'],
  ])('is not rewarded by %s, and does not hide the answer after it', (_, of, truth, wrong, right) => {
    const successOf = (reply: Message): boolean => scoreOf(of, truth, reply).success
    for (const [thought, rest, isRight] of [
      [wrong, right, true],
      [right, wrong, false],
    ] as const) {
      expect(successOf(message('assistant', `<think>${thought}</think>\n${rest}`))).toBe(isRight)
      expect(successOf(message('assistant', `${thought}</think>\n${rest}`))).toBe(isRight)
      expect(successOf(message('assistant', rest, { reasoning: thought }))).toBe(isRight)
    }
    expect(successOf(message('assistant', `<think>${right}`, { isComplete: false }))).toBe(false)
  })

  it('counts as a thought in and beside the text', () => {
    const replies = [
      message('assistant', '<think>hm</think><answer>4</answer>'),
      message('assistant', '<answer>4</answer>', { reasoning: 'hm' }),
    ]
    for (const reply of replies) {
      expect(scoreOf(gsm8kAnswerReward(), '#### 4', reply)).toMatchObject({ parts: { think: 1, answer: 1, right: 1 } })
      expect(scoreOf(thinkReward(gsm8kAnswerReward()), '#### 4', reply).reward).toBe(1)
      expect(scoreOf(formatReward(), '', reply).reward).toBe(1)
    }
    const cutOff = message('assistant', '', { reasoning: 'hm', isComplete: false })
    expect(scoreOf(formatReward(), '', cutOff).success).toBe(false)
  })

  it('is not the prediction of a function, nor the answer of a turn', async () => {
    const said = message('assistant', '<think>4?</think>5')
    const seen = reward(({ prediction }) => (prediction === '5' ? 1 : 0))
    const task = { id: 'a', query: 'q', answer: '' }
    const scored = await seen.score(
      { task, history: History([message('user', 'q'), said]) },
      { key, signal: new AbortController().signal },
    )()
    expect(orThrow(scored).reward).toBe(1)
    const answers: string[] = []
    const env = MultiTurnEnv({
      source: taskList('one', [{ query: 'q' }]),
      prompts: 1,
      maxTurns: 2,
      reply: ({ answer }) => {
        answers.push(answer)
        return { done: true, reward: 1 }
      },
    })
    const first = own(await answered(env.reset(asking('q'), key)))
    own(await answered(env.step(first.value, TensorDict({ history: { response: data([said]) } }, [1])))).release()
    first.release()
    expect(answers).toEqual(['5'])
  })
})

describe('the thoughts of a policy', () => {
  it('are not shown to a simulated user', () => {
    const history = History([message('user', 'Hi'), message('assistant', '<think>rude</think>Hello!')])
    expect(userView(history).messages.last()).toEqual(message('user', 'Hello!'))
    expect(userView(History([message('assistant', '<think>hm</think>')])).messages.size).toBe(0)
  })
})

describe('in thoughts', () => {
  const CALL = '<tool_call>{"name": "add", "arguments": {"by": 2}}</tool_call>'

  it('a call of a tool is not run by an environment, unless thoughts are searched', async () => {
    const callsAfter = async (text: string, options: object = {}): Promise<unknown> => {
      const tools = SimpleToolTransform({ registry: ToolRegistry([adder]), format: 'hermes', ...options })
      const env = pipe(ChatEnv({ batchSize: 1 }), append(tools))
      const first = own(await answered(env.reset(asking('q'), key)))
      const action = TensorDict({ history: { response: data([message('assistant', text)]) } }, [1])
      const next = own(await answered(env.step(first.value, action)))
      const calls = get(next.value, 'toolCalls').items.get(0)
      first.release()
      next.release()
      return calls
    }
    const thought = `<think>maybe ${CALL}</think>`
    expect(await callsAfter(`${thought}The answer is 4.`)).toBe(0)
    expect(await callsAfter(`maybe ${CALL}</think>4`)).toBe(0)
    expect(await callsAfter(`${thought}${CALL}`)).toBe(1)
    expect(await callsAfter(`${thought}4`, { thoughts: 'searched' })).toBe(1)
    expect(await callsAfter(`[THINK]${CALL}[/THINK]4`, { thoughts: ['[THINK]', '[/THINK]'] })).toBe(0)
  })

  it('a call is not found after a prompt that opened them, even without their end', () => {
    const reply = message('assistant', `maybe ${CALL}`)
    const find = callsOfText('hermes')
    expect(find(reply, undefined, '<|im_start|>assistant\n<think>\n')).toEqual({ calls: [], malformed: [] })
    expect(find(reply, undefined).calls).toHaveLength(1)
  })

  it('an action is not a move, and a name is not a mention', () => {
    const moveOf = (reply: string) => parseAction(ticTacToe, ticTacToe.initial, { player: 0, reply })
    expect(moveOf('<think>not [0]</think>[4]')).toMatchObject({ right: 4 })
    expect(moveOf('[4]<think>or [0]?</think>')).toMatchObject({ right: 4 })
    expect(moveOf('<think>[0]</think>4')).toMatchObject({ right: 4 })
    expect(moveOf('<think>[0]')).toMatchObject({ left: { kind: 'unreadable' } })
    const { game, text } = textArenaGame('TicTacToe-v0')
    expect(text.read(game, game.initial, { player: 0, reply: '<think>[0]</think>[4]' })).toMatchObject({ right: 4 })
    const turn = { agent: 'ann', message: message('assistant', '<think>@cat?</think>@bob, go.'), saw: 0 }
    expect(byMention()([turn], ['ann', 'bob', 'cat'], '')).toMatchObject({ agent: 'bob' })
  })
})
