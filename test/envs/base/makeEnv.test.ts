import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { discard } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { dataSpec } from '../../../src/data/spec.js'
import { type Data, data } from '../../../src/data/tensorDict/leaf.js'
import { findData, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { makeEnv } from '../../../src/envs/base/makeEnv.js'
import { numbersAt } from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

type Place = { readonly place: Data<string> }

const spec = { place: dataSpec<string>('string') }

/** Pays 1 and ends where the action is `end`. */
const walk = (batchSize: number) =>
  makeEnv<Place, Place>({
    name: 'walk',
    batchSize,
    specs: { observation: spec, action: spec },
    reset: () => TE.right(TensorDict({ place: data(Array.from({ length: batchSize }, () => 'start')) }, [batchSize])),
    step: (_, action) => {
      const places = findData<string>(action, 'place')!
      const terminated = places.map((place) => place === 'end')
      return TE.right({
        next: TensorDict({ place: data(places) }, [batchSize]),
        reward: terminated.map(Number),
        terminated,
      })
    },
  })

const to = (...places: readonly string[]) => TensorDict({ place: data(places) }, [places.length])

describe('makeEnv', () => {
  it('keeps entries of the request that the first state does not have', async () => {
    const request = TensorDict({ place: data(['elsewhere']), note: data(['kept']) }, [1])
    const state: TensorDict = orThrow(await walk(1).reset(request, keyFromSeed(1))())
    expect([findData(state, 'place'), findData(state, 'note')]).toEqual([['start'], ['kept']])
  })

  it('pays and ends each element by its own numbers, and pays nothing after its end', async () => {
    const env = walk(2)
    const first = orThrow(await env.reset(TensorDict({}, [2]), keyFromSeed(1))())
    const second = orThrow(await env.step(first, to('end', 'on'))())
    const third = orThrow(await env.step(second as never, to('end', 'end'))()) // a stepped state is a state
    expect(numbersAt(second as TensorDict, 'reward')).toEqual([1, 0])
    expect(numbersAt(third as TensorDict, 'reward')).toEqual([0, 1])
    expect(numbersAt(third as TensorDict, 'done')).toEqual([1, 1])
    discard([second, third])
  })

  it('refuses a batch without elements, and an action of another batch shape', async () => {
    expect(() => walk(0)).toThrow('walk: batchSize must be at least 1, got 0')
    const state = orThrow(await walk(2).reset(TensorDict({}, [2]), keyFromSeed(1))())
    expect(() => walk(2).step(state, to('end'))).toThrow('walk: the action has batch shape [1], the state [2]')
  })
})
