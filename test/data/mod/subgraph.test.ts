/** Parts of modules, and random streams. */
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { orThrow } from '../../../src/core/failure.js'
import { type Key, keyFromSeed, uniform } from '../../../src/core/key.js'
import { branchOn } from '../../../src/data/mod/branch.js'
import { parallel, seq } from '../../../src/data/mod/combine.js'
import { mod, randomMod } from '../../../src/data/mod/mod.js'
import { remapIn, remapOut } from '../../../src/data/mod/remap.js'
import { runMod } from '../../../src/data/mod/run.js'
import { pick, subgraph } from '../../../src/data/mod/subgraph.js'
import { type Meta, meta } from '../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { numbers, problemsOf, sum, untyped } from '../../kit/mods.js'

describe('pick and subgraph', () => {
  const log: string[] = []
  const chain = seq(
    sum('b', { inKeys: ['a'], outKeys: ['b', 'unused'] }, log),
    sum('c', { inKeys: ['other'], outKeys: ['c'] }, log),
    sum('d', { inKeys: ['b'], outKeys: ['d'] }, log),
  )

  it('pick runs everything and writes what is named', () => {
    log.length = 0
    const result = orThrow(runMod(pick(chain, 'd'), numbers({ a: 1, other: 0 })))
    expect([...result.entries.keys()]).toEqual(['a', 'other', 'd'])
    expect(log).toEqual(['b', 'c', 'd'])
  })

  it('subgraph runs what is needed, and does not need the rest of the inputs', () => {
    log.length = 0
    const part = subgraph(chain, 'd')
    expect(part.inKeys).toEqual([['a']])
    const result = orThrow(runMod(part, numbers({ a: 1 })))
    expect([...result.entries.keys()]).toEqual(['a', 'd'])
    expect(log).toEqual(['b', 'd'])
  })

  it('subgraph looks into parallel, branch, remap and pick', () => {
    const one = (name: string) => sum(name, { inKeys: [`in ${name}`], outKeys: [name] }, log)
    const chosen = branchOn({
      name: 'chosen',
      keyAt: 'mode',
      cases: { x: parallel(one('e'), one('f')), y: seq(one('f'), one('e')) },
    })
    const moved = remapOut(remapIn(chosen, [{ inner: 'mode', outer: 'how' }]), [{ inner: 'e', outer: 'E' }])
    const whole: typeof chain = seq(one('g'), moved) as never // whose keys the compiler does not know
    const part = subgraph(pick(whole, 'E', 'f'), 'E')
    expect(part.inKeys).toEqual([['how'], ['in e']])
    log.length = 0
    const result = untyped.run(part, TensorDict({ how: meta('x'), 'in e': meta(4) }, []))
    expect(orThrow(result).entries.get('E')).toEqual(meta(5))
    expect(log).toEqual(['e'])
  })

  it('refuse keys that the module does not write', () => {
    expect(problemsOf(() => pick(chain, 'a', 'z'))).toEqual([
      'a: the module does not write it',
      'z: the module does not write it',
    ])
    expect(problemsOf(() => subgraph(chain, 'z'))).toEqual(['z: the module does not write it'])
  })
})

describe('randomMod', () => {
  const noise = (name: string, out: string) =>
    randomMod({
      name,
      keyAt: 'rng',
      inKeys: ['rng'],
      outKeys: [out],
      run: (td: TensorDict<{ readonly rng: Meta<Key> }>) => E.right({ [out]: meta(uniform(get(td, 'rng').value)) }),
    })
  const td = TensorDict({ rng: meta(keyFromSeed(1)) }, [])

  it('gives each name a stream of its own, the same in every grouping and part', () => {
    const both = seq(noise('a', 'x'), noise('b', 'y'))
    const result: TensorDict = orThrow(runMod(both, td))
    expect(result.entries.get('x')).not.toEqual(result.entries.get('y'))
    expect(result.entries.get('rng')).toBe(td.entries.get('rng'))
    const alone: TensorDict = orThrow(runMod(noise('b', 'y'), td))
    expect(alone.entries.get('y')).toEqual(result.entries.get('y'))
  })

  it('two of one name under one key are refused, unless the key changes between them', () => {
    const [x, y] = [noise('same', 'x'), noise('same', 'y')]
    const problem = 'rng: two modules named "same" would draw the same random numbers'
    expect(problemsOf(() => seq(x, y))).toEqual([problem])
    expect(problemsOf(() => parallel(x, y))).toEqual([problem])
    const next = mod({
      name: 'next key',
      inKeys: [],
      outKeys: ['rng'],
      run: () => E.right({ rng: meta(keyFromSeed(2)) }),
    })
    const result: TensorDict = orThrow(runMod(seq(x, next, y), td))
    expect(result.entries.get('x')).not.toEqual(result.entries.get('y'))
    const moved = remapIn(y, [{ inner: 'rng', outer: 'rng2' }])
    expect(seq(x, moved).streams.map(({ path }) => path)).toEqual([['rng'], ['rng2']])
    expect(branchOn({ name: 'either', keyAt: 'mode', cases: { x, again: x } }).streams).toHaveLength(1)
  })

  it('throws for an entry that is no key', () => {
    expect(() => untyped.run(noise('a', 'x'), numbers({ rng: 1 }))).toThrow('expected meta of a random key')
  })
})
