import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { useEngine, valuesOf } from '../../../test/kit/engine.js'
import { region, useOwned } from '../src/region.js'
import { type Owned, own, ownedCount } from '../src/scope.js'

useEngine()

const two = (): TE.TaskEither<never, Owned<tf.Tensor>> => async () => E.right(own(tf.scalar(2)))

describe('useOwned', () => {
  it('gives the result of the use, and releases the value after it', async () => {
    let seen: tf.Tensor | undefined
    const result = await useOwned(two(), (x) => async () => {
      await Promise.resolve()
      seen = x
      return E.right(valuesOf(x))
    })()
    expect(result).toEqual(E.right([2]))
    expect(seen?.isDisposed).toBe(true)
  })

  it('gives the first failure, and cleans up and releases after each', async () => {
    const log: string[] = []
    const step = (name: string, result: E.Either<string, void>) => (): TE.TaskEither<string, void> => async () => {
      log.push(`${name} with ${ownedCount()} owned`)
      return result
    }
    const outcome = async (use: E.Either<string, void>, cleanUp: E.Either<string, void>) => {
      log.length = 0
      return [await useOwned(two(), step('use', use), step('clean up', cleanUp))(), [...log], ownedCount()]
    }
    const both = ['use with 1 owned', 'clean up with 1 owned']
    expect(await outcome(E.left('use'), E.left('clean up'))).toEqual([E.left('use'), both, 0])
    expect(await outcome(E.right(undefined), E.left('clean up'))).toEqual([E.left('clean up'), both, 0])
    expect(await outcome(E.right(undefined), E.right(undefined))).toEqual([E.right(undefined), both, 0])
    const acquire: TE.TaskEither<string, Owned<tf.Tensor>> = TE.left('acquire')
    expect(await useOwned(acquire, step('use', E.right(undefined)))()).toEqual(E.left('acquire'))
  })

  it('shows the clean-up the value and the result', async () => {
    const seen: unknown[] = []
    await useOwned(
      two(),
      () => TE.of('used'),
      (x, result) => async () => {
        seen.push(valuesOf(x), result)
        return E.right(undefined)
      },
    )()
    expect(seen).toEqual([[2], E.right('used')])
  })

  it('releases if the promise of the use rejects', async () => {
    const use = (): TE.TaskEither<never, never> => () => Promise.reject(new Error('mine'))
    await expect(useOwned(two(), use)()).rejects.toThrow('mine')
  })
})

describe('region', () => {
  it('keeps the results of its steps until its end, across waits', async () => {
    const made: tf.Tensor[] = []
    {
      await using here = region()
      const x = here.step(() => tf.add(tf.ones([2]), 1))
      await Promise.resolve()
      const { y } = here.step(() => ({ y: tf.mul(x, 3) }))
      await Promise.resolve()
      expect(valuesOf(y)).toEqual([6, 6])
      expect(ownedCount()).toBe(2)
      made.push(x, y)
    }
    expect(made.map((t) => t.isDisposed)).toEqual([true, true])
  })

  it('undoes everything, the latest first, also if the block throws', () => {
    const law = fc.property(fc.array(fc.constantFrom('own', 'step', 'defer'), { maxLength: 8 }), (actions) => {
      const log: number[] = []
      const block = (): void => {
        using here = region()
        for (const [i, action] of actions.entries()) {
          here.defer(() => log.push(i))
          if (action === 'own') here.own(tf.scalar(i))
          if (action === 'step') here.step(() => tf.neg(tf.scalar(i)))
        }
        throw new Error('mine')
      }
      expect(block).toThrow('mine')
      expect(log).toEqual([...actions.keys()].reverse())
      expect(ownedCount()).toBe(0)
    })
    fc.assert(law)
  })

  it('undoes the rest if something throws, and reports the error', () => {
    const here = region()
    const x = here.own(tf.scalar(1))
    const fail = (text: string) => () => {
      throw new Error(text)
    }
    here.defer(fail('first'))
    expect(() => here.release()).toThrow(new Error('first'))
    expect(x.isDisposed).toBe(true)
    const other = region()
    other.defer(fail('one'))
    other.defer(fail('two'))
    expect(() => other.release()).toThrow(
      expect.objectContaining({
        message: 'region: 2 errors while it ended',
        errors: [new Error('two'), new Error('one')],
      }),
    )
  })

  it('is shared with other owners', () => {
    const here = region()
    const x = here.step(() => tf.scalar(1))
    const kept = own(x)
    here.release()
    expect(x.isDisposed).toBe(false)
    kept.release()
    expect(x.isDisposed).toBe(true)
  })

  it('refuses everything after its end, and then runs and owns nothing', () => {
    const here = region()
    here.release()
    let hasRun = false
    const step = (): void => {
      hasRun = true
    }
    for (const use of [() => here.release(), () => here.own(1), () => here.step(step), () => here.defer(step)]) {
      expect(use).toThrow('region: it has ended already')
    }
    expect(hasRun).toBe(false)
  })
})
