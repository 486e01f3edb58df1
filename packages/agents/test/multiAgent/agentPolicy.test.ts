import { keyFromSeed, orThrow, uniformInteger } from '@tandem-rl/base'
import { policyFailure, scriptedPolicy } from '@tandem-rl/testing'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { data, ragged } from '../../../../src/data/tensorDict/leaf.js'
import { assign } from '../../../../src/data/tensorDict/merge.js'
import { TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import { itemsAt, numbersAt, rowsAt } from '../../../../test/kit/conversation.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { agentPolicy } from '../../src/multiAgent/agentPolicy.js'

useEngine()

const key = keyFromSeed(2)
const stateOf = (agents: readonly unknown[]) =>
  TensorDict(
    {
      agent: data(agents),
      tokens: {
        prompt: ragged(
          'int32',
          agents.map((_, i) => [i]),
        ),
        spans: data(agents.map(() => [])),
      },
    },
    [agents.length],
  ) as TensorDict<never> // with whatever is tried as agents

/** Replies with the id of its agent and that of its prompt. */
const saying = (id: number) =>
  scriptedPolicy({ answers: (state) => [id, rowsAt(state, 'tokens', 'prompt')[0]![0]!], policyVersion: id })

describe('agentPolicy', () => {
  it('law: each row is answered by the policy of its agent, in its place', async () => {
    const policies = { ann: saying(1), bob: saying(2), cat: saying(3) }
    const ids = { ann: 1, bob: 2, cat: 3 }
    const names = fc.array(fc.constantFrom('ann', 'bob', 'cat'), { minLength: 1, maxLength: 7 })
    await fc.assert(
      fc.asyncProperty(names, async (agents) => {
        const action = orThrow(await agentPolicy({ policies }).act(stateOf(agents), key)())
        expect(action.batchShape).toEqual([agents.length])
        expect(rowsAt(action, 'tokens', 'response')).toEqual(agents.map((agent, i) => [ids[agent], i]))
        expect(itemsAt(action, 'policyVersion')).toEqual(agents.map((agent) => ids[agent]))
      }),
    )
  })

  it('asks a policy of several agents once, and policies with keys of their own', async () => {
    const draw = () => scriptedPolicy({ answers: (_, own) => [uniformInteger(own, 2 ** 30)] })
    const [shared, other] = [draw(), draw()]
    const both = agentPolicy({ policies: { ann: shared, bob: other, cat: shared } })
    const action = orThrow(await both.act(stateOf(['ann', 'bob', 'cat']), key)())
    expect([shared.calls().length, other.calls().length]).toEqual([1, 1])
    const said = rowsAt(action, 'tokens', 'response').flat()
    expect(new Set(said).size).toBe(3)
    const alone = orThrow(await both.act(stateOf(['ann', 'cat']), key)())
    expect(rowsAt(alone, 'tokens', 'response').flat()).toEqual([said[0], said[2]])
  })

  it('leaves out what only some of the policies say', async () => {
    const chatty = {
      ...saying(2),
      act:
        (...asked: Parameters<ReturnType<typeof saying>['act']>) =>
        async () => {
          const action = orThrow(await saying(2).act(...asked)())
          return {
            _tag: 'Right' as const,
            right: assign(action, { mood: data(action.batchShape.map(() => 'good')) }) as never,
          } // more than promised
        },
    }
    const action = orThrow(
      await agentPolicy({ policies: { ann: saying(1), bob: chatty } }).act(stateOf(['ann', 'bob']), key)(),
    )
    expect(action.entries.has('mood')).toBe(false)
    expect(rowsAt(action, 'tokens', 'response')).toEqual([
      [1, 0],
      [2, 1],
    ])
  })

  it('keeps the tensors of a state until the policies have answered', async () => {
    const late = (id: number): ReturnType<typeof saying> => ({
      ...saying(id),
      act: (state, own) => async () => {
        await new Promise((resolve) => setImmediate(resolve))
        numbersAt(state, 'worth') // throws if it was freed
        return saying(id).act(state, own)()
      },
    })
    const worth = tf.tensor1d([1, 2])
    const action = orThrow(
      await agentPolicy({ policies: { ann: late(1), bob: late(2) } }).act(
        assign(stateOf(['ann', 'bob']), { worth }) as never,
        key,
      )(), // with more than is asked for
    )
    worth.dispose()
    expect(rowsAt(action, 'tokens', 'response')).toEqual([
      [1, 0],
      [2, 1],
    ])
  })

  it('fails with the policy that fails, and where nobody can answer', async () => {
    const down = policyFailure('no server', 'bob', 'infrastructure')
    const policies = {
      ann: saying(1),
      bob: scriptedPolicy({ answers: [], faults: () => ({ _tag: 'Fail', failure: down }) }),
    }
    const of = (agents: readonly unknown[]) => agentPolicy({ policies }).act(stateOf(agents), key)()
    expect(await of(['ann', 'bob'])).toMatchObject({ left: down })
    expect(await of(['ann', 'eve', 'dan'])).toMatchObject({
      left: { kind: 'asked', reason: 'there is no policy of eve, dan' },
    })
    expect(await of(['toString'])).toMatchObject({ left: { reason: 'there is no policy of toString' } })
    const mute = {
      left: { kind: 'asked', reason: "the state has no 'agent' entry, which names the agent of each turn" },
    }
    expect(await of([1])).toMatchObject(mute)
    expect(await agentPolicy({ policies }).act(TensorDict({}, [1]) as never, key)()).toMatchObject(mute) // without an agent
    expect(() => agentPolicy({ policies: {} })).toThrow('agentPolicy: there is no policy')
  })
})
