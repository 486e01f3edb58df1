/**
 * The shop: its pages, its grades, and an episode of it through the tool, the reward and a rollout.
 */
import { child, keyFromSeed, orThrow } from '@tandem-rl/base'
import { scriptedHistoryPolicy } from '@tandem-rl/testing'
import { message, textOf } from '@tandem-rl/text'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { get } from '../../../../src/data/tensorDict/tensorDict.js'
import { DatasetChatEnv } from '../../../../src/envs/datasetChatEnv.js'
import { worldReward } from '../../../../src/envs/rewards/worldReward.js'
import { rollout } from '../../../../src/envs/rollout.js'
import { rewardTransform } from '../../../../src/envs/transforms/rewardTransform.js'
import { append } from '../../../../src/envs/transforms/transform.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { callOf } from '../../../../test/kit/tools.js'
import { playedWorld } from '../../../../test/kit/worlds.js'
import { SimpleToolTransform } from '../../src/tools/simpleToolTransform.js'
import { ToolRegistry } from '../../src/tools/toolRegistry.js'
import { worldTool } from '../../src/tools/worldTool.js'
import { shopCatalogue, shopScore, shopSolution, shopTasks, shopWorld } from '../../src/worlds/shop.js'

useEngine()

const key = keyFromSeed(7)
const world = shopWorld()
const taskAt = (i: number) => orThrow(shopTasks(key).at(i))

const command = (action: string) => message('assistant', '', { toolCalls: [callOf('shop', { action })] })

const visit = (kept: 'task' | 'columns', actions: readonly string[]) => {
  const env = pipe(
    DatasetChatEnv({ source: shopTasks(key), prompts: 1, keep: kept }),
    append(SimpleToolTransform({ registry: ToolRegistry([worldTool(world)]) })),
    append(rewardTransform({ reward: worldReward({ tool: 'shop' }) })),
  )
  const policy = scriptedHistoryPolicy({ answers: actions.map(command) })
  return rollout(env, policy, { steps: 9, key })()
}

describe('shopWorld', () => {
  it('law: the solution of every task scores 1, and no purchase scores more', () => {
    fc.assert(
      fc.property(fc.nat(500), fc.nat(500), (i, j) => {
        const [task, other] = [taskAt(i), taskAt(j)]
        const end = playedWorld(world, task.goal, shopSolution(task))
        expect([end.score, end.done]).toEqual([1, true])
        const wrong = playedWorld(world, task.goal, shopSolution({ ...task, answer: other.answer, goal: other.goal }))
        expect(wrong.score).toBeGreaterThanOrEqual(0)
        expect(wrong.score).toBeLessThanOrEqual(1)
      }),
    )
  })

  it('law: any action, however strange, leaves a page with a score from 0 to 1', () => {
    const action = fc.oneof(fc.string(), fc.constantFrom('search[mug]', 'click[B10]', 'click[red]', 'click[buy]'))
    fc.assert(
      fc.property(fc.array(action, { maxLength: 12 }), (actions) => {
        const end = playedWorld(world, taskAt(0).goal, actions)
        expect(end.score >= 0 && end.score <= 1 && end.observation !== '').toBe(true)
        expect(JSON.parse(JSON.stringify(end.state))).toEqual(end.state)
      }),
    )
  })

  it('accepts every action that it lists', () => {
    const results = playedWorld(world, taskAt(0).goal, ['search[mug]'])
    for (const { state, actions } of [results, world.act(results.state, results.actions[0]!)])
      for (const action of actions) expect(world.act(state, action).observation).not.toContain('not possible')
  })

  it('grades a purchase by its attributes, options and price, and a thing of another kind with 0', () => {
    const goal = { type: 'mug', attributes: ['wooden'], options: { color: 'red', size: 'M' }, maxPrice: 20 }
    const mug = { type: 'mug', attributes: ['wooden'], options: {}, price: 20 }
    expect(shopScore(mug, { color: 'red', size: 'M' }, goal)).toBe(1)
    expect(shopScore({ ...mug, price: 21 }, { color: 'red' }, goal)).toBe(2 / 4)
    expect(shopScore({ ...mug, type: 'lamp' }, { color: 'red', size: 'M' }, goal)).toBe(0)
  })

  it('names what is wrong with the arguments of a row, and with the size of a catalogue', () => {
    expect(world.start({ type: 'mug' })).toMatchObject({ left: expect.stringContaining('attributes') })
    expect(() => shopCatalogue({ types: 9 })).toThrow('types must be an integer from 1 to 8, got 9')
    expect(shopCatalogue({ key: child(key, 1) })).not.toEqual(shopCatalogue())
  })
})

describe('worldTool', () => {
  it('ends the episode with the purchase, and worldReward pays its score', async () => {
    const task = taskAt(0)
    const steps = own(orThrow(await visit('task', shopSolution(task))))
    const rewards = [...get(steps.value, 'next', 'reward').dataSync()]
    expect(rewards).toEqual([0, 0, 0, 0, 1])
    expect([...get(steps.value, 'next', 'terminated').dataSync()]).toEqual([0, 0, 0, 0, 1])
    const first = get(steps.value, 'next', 'history', 'prompt').items.get(0)!
    expect(textOf(first.messages.last()!)).toContain(`[${task.answer}]`)
    steps.release()
  })

  it('fails by name where the environment does not keep the row', async () => {
    const failed = await visit('columns', ['search[mug]'])
    expect(failed).toMatchObject({
      left: { cause: { kind: 'infrastructure', reason: expect.stringContaining("set keep: 'task'") } },
    })
  })
})
