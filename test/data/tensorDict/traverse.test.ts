/** Applicatives and tasks over leaves. */
import { liveTensors, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import * as O from 'fp-ts/lib/Option.js'
import * as RA from 'fp-ts/lib/ReadonlyArray.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { toNested } from '../../../src/data/tensorDict/inspect.js'
import { data, meta } from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { traverseLeaves, traverseLeavesTask } from '../../../src/data/tensorDict/traverse.js'
import { useEngine } from '../../kit/engine.js'
import { small } from '../../kit/refusals.js'

useEngine()

describe('traverseLeaves', () => {
  it('gives all leaves, in order, with their paths', () => {
    const seen: string[] = []
    const result = traverseLeaves(O.Applicative)(small(), (_, path) => {
      seen.push(path.join('.'))
      return O.some(meta(path))
    })
    expect(seen).toEqual(['a', 'n.b'])
    expect(O.isSome(result) && toNested(result.value)).toEqual({ a: ['a'], n: { b: ['n', 'b'] } })
  })

  it('gives nothing if one leaf is nothing', () => {
    expect(traverseLeaves(O.Applicative)(small(), (leaf, [name]) => (name === 'n' ? O.none : O.some(leaf)))).toEqual(
      O.none,
    )
  })

  it('gives the first failure, or all of them, by the applicative', () => {
    const fail = (_: unknown, path: readonly string[]) => E.left([path.join('.')])
    expect(traverseLeaves(E.Applicative)(small(), fail)).toEqual(E.left(['a']))
    const validation = E.getApplicativeValidation(RA.getSemigroup<string>())
    expect(traverseLeaves(validation)(small(), fail)).toEqual(E.left(['a', 'n.b']))
  })

  it('of no leaves calls nothing', () => {
    const td = TensorDict({ n: {} }, [2])
    const result = traverseLeaves(E.Applicative)(td, () => E.left('no'))
    expect(result).toEqual(E.right(td))
  })

  it('frees what was made if it fails or does not fit', () => {
    scope(() => {
      const td = TensorDict({ x: tf.zeros([1]), y: tf.zeros([1]) }, [1])
      const before = liveTensors().count
      const failed = traverseLeaves(E.Applicative)(td, (_, [name]) =>
        name === 'y' ? E.left('no') : E.right(tf.ones([1])),
      )
      expect(failed).toEqual(E.left('no'))
      expect(() => traverseLeaves(O.Applicative)(td, () => O.some(tf.ones([2])))).toThrow(
        'mapLeaves: at "x": tensor of shape [2]',
      )
      expect(liveTensors().count).toBe(before)
      return []
    })
  })
})

describe('traverseLeavesTask', () => {
  it('runs one task after the other, and none behind a failure', async () => {
    const seen: string[] = []
    const task =
      (_: unknown, path: readonly string[]): TE.TaskEither<string, never> =>
      async () => {
        seen.push(`${path.join('.')} begins`)
        await Promise.resolve()
        seen.push(`${path.join('.')} ends`)
        return path[0] === 'n' ? E.left('no') : E.right(meta(0) as never)
      }
    const td = TensorDict({ a: meta(1), n: { b: meta(2) }, c: meta(3) }, [])
    expect(await traverseLeavesTask(td, task)()).toEqual(E.left('no'))
    expect(seen).toEqual(['a begins', 'a ends', 'n.b begins', 'n.b ends'])
  })

  it('gives the tree over the results', async () => {
    const result = await traverseLeavesTask(small(), (_, path) => TE.right(data([path.length])))()
    expect(E.isRight(result) && toNested(result.right)).toEqual({ a: [1], n: { b: [2] } })
  })
})
