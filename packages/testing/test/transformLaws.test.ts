/** The kit accepts good transforms and rejects each kind of fault, by the law that names it. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { envFailure, identity, type TransformParts, transform } from 'tandem-rl'
import {
  data,
  dataSpec,
  type Entries,
  get,
  type Ragged,
  ragged,
  raggedSpec,
  type Spec,
  TensorDict,
  tensorSpec,
} from 'tandem-rl/tensordict'
import { describe, expect, it } from 'vitest'
import { brokenLaws } from '../../../test/kit/conversation.js'
import { useEngine } from '../../../test/kit/engine.js'
import { checkLaws } from '../src/law.js'
import { erased, transformLaws } from '../src/transformLaws.js'

useEngine()

type State = { readonly x: tf.Tensor; readonly rows: Ragged<'int32'> }

const samples = fc.array(fc.integer({ min: -5, max: 5 }), { minLength: 2, maxLength: 3 }).map((xs) => {
  const state = () =>
    TensorDict(
      {
        x: tf.tensor1d(xs, 'float32'),
        rows: ragged(
          'int32',
          xs.map((x) => [x]),
        ),
      },
      [xs.length],
    )
  return {
    inner: {
      observation: { x: tensorSpec('float32'), rows: raggedSpec('int32') },
      action: { word: dataSpec<string>('string') },
    },
    state,
    action: () => TensorDict({ word: data(xs.map(String)) }, [xs.length]),
    next: state,
  }
})

type Added = (td: TensorDict<State>) => Entries
type Parts = Partial<TransformParts<null, State, unknown, unknown, unknown>>

/** A transform that adds the same on reset and on step. */
const adding = (adds: Spec, entries: Added, parts: Parts = {}) => {
  const run = (td: TensorDict<State>) => TE.right([scope(() => TensorDict(entries(td), td.batchShape)), null] as const)
  return transform<null, State, unknown>({ name: 'subject', initial: null, adds, reset: run, step: run, ...parts })
}

const broken = (t: ReturnType<typeof adding>): Promise<readonly string[]> =>
  brokenLaws(transformLaws(fc.constant(erased(t)), samples, 5))

const twice = tensorSpec('float32')
const doubled: Added = (td) => ({ twice: tf.mul(get(td, 'x'), 2) })

describe('transformLaws', () => {
  checkLaws(it, transformLaws(fc.constantFrom(erased(identity), erased(adding({ twice }, doubled))), samples))

  it('finds nothing wrong with a transform that keeps its word', async () => {
    expect(await broken(adding({ twice }, doubled))).toEqual([])
  })

  describe('purity rejects', () => {
    it('a transform that counts its calls', async () => {
      let calls = 0
      const count: Added = (td) => ({ calls: data(td.batchShape.flatMap((n) => new Array(n).fill(calls++))) })
      expect(await broken(adding({ calls: dataSpec('number') }, count))).toContain('purity')
    })

    it('a transform that draws from the global random source', async () => {
      const noise: Added = (td) => ({ noise: tf.add(tf.zeros([...td.batchShape]), Math.random()) })
      expect(await broken(adding({ noise: twice }, noise))).toContain('purity')
    })

    it('a transform that writes into its input', async () => {
      const spoil: Added = (td) => {
        const values = get(td, 'rows').values as Int32Array // ragged int32 values are one
        values.fill(99)
        return {}
      }
      expect(await broken(adding({}, spoil))).toContain('purity')
    })

    it('a transform that frees its input', async () => {
      const free: Added = (td) => {
        get(td, 'x').dispose()
        return {}
      }
      expect(await broken(adding({}, free))).toContain('purity')
    })

    it('a transform that keeps tensors to itself', async () => {
      const hoarded: tf.Tensor[] = []
      const hoard: Added = () => {
        hoarded.push(tf.keep(tf.zeros([3])))
        return {}
      }
      const result = await broken(adding({}, hoard))
      tf.dispose(hoarded)
      expect(result).toContain('purity')
    })

    it('a transform that fails where it was said to work', async () => {
      const step = () => TE.left(envFailure('subject', 'no'))
      expect(await broken(adding({}, () => ({}), { step }))).toContain('purity')
    })
  })

  describe('spec soundness rejects', () => {
    it.each<[string, ReturnType<typeof adding>]>([
      ['an entry that is promised and not there', adding({ twice, more: twice }, doubled)],
      ['an entry of another dtype', adding({ twice: tensorSpec('int32') }, doubled)],
      ['an entry of another shape', adding({ twice: tensorSpec('float32', [2]) }, doubled)],
      ['an entry of another kind', adding({ twice: dataSpec('number') }, doubled)],
      [
        'an entry that is there after reset alone',
        adding({ twice }, doubled, { step: (td) => TE.right([TensorDict({}, td.batchShape), null]) }),
      ],
      [
        'a need that the environment does not meet',
        adding({ twice }, doubled, { needs: { observation: { z: twice }, action: {} } }),
      ],
      [
        'an action that its inverse was to make for the environment inside',
        adding({ twice }, doubled, {
          takes: { removes: { word: dataSpec('string') }, adds: { word: dataSpec('string') } },
          inverse: (action) =>
            E.right(TensorDict({ word: ragged('int32', new Array(action.batchShape[0]).fill([])) }, action.batchShape)),
        }),
      ],
      [
        'an action entry that it says the policy gives',
        adding({ twice }, doubled, { takes: { removes: {}, adds: { letters: dataSpec('string') } } }),
      ],
    ])('%s', async (_, t) => {
      expect(await broken(t)).toEqual(['spec soundness'])
    })
  })

  it('identity and associativity reject a transform that notices how often it was called', async () => {
    let calls = 0
    const count: Added = (td) => ({ calls: data(td.batchShape.flatMap((n) => new Array(n).fill(calls++))) })
    expect(await broken(adding({ calls: dataSpec('number') }, count))).toEqual(
      expect.arrayContaining(['identity', 'associativity']),
    )
  })

  it('a reward that depends on the rest of the batch is rejected', async () => {
    const centered: Added = (td) => ({ reward: tf.sub(get(td, 'x'), tf.mean(get(td, 'x'))) })
    expect(await broken(adding({ reward: twice }, centered))).toEqual(['rows'])
  })
})
