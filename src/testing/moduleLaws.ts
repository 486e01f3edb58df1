/** The laws of modules, for any modules: numbers 88 to 93. */
import fc from 'fast-check'
import { isLeft, isRight } from 'fp-ts/lib/Either.js'
import { identityMod, seqOf } from '../data/mod/combine.js'
import { entryAt, formatPath, isAtOrBelow, type ModKey, type ModPath, pathId, restrict } from '../data/mod/keys.js'
import { type AnyMod, type Mod, modOf, openInputs } from '../data/mod/mod.js'
import { runModAsync } from '../data/mod/run.js'
import { subgraph } from '../data/mod/subgraph.js'
import { equals } from '../data/tensorDict/compare.js'
import { format, toNested } from '../data/tensorDict/inspect.js'
import { leafEntries } from '../data/tensorDict/leaves.js'
import { find, type TensorDict } from '../data/tensorDict/tensorDict.js'
import { discard, liveTensors, own } from '../engine/scope.js'
import { type NumberedLaw, numbered, require } from './law.js'

/** What modules are checked on. */
export interface ModuleSample {
  /** Modules that may run one after the other, at least one. */
  readonly mods: readonly AnyMod[]
  /** Makes a TensorDict with all that they read, and preferably more, with tensors that belong to the caller. */
  readonly td: () => TensorDict
}

// Any module runs on any TensorDict as far as the kit is concerned: what is missing is among the laws.
const run = (mod: AnyMod, td: TensorDict) => runModAsync(mod as Mod<unknown, unknown>, td)()

/** Runs a module that must not fail. */
type OutputOf = (mod: AnyMod, td: TensorDict) => Promise<TensorDict>

/** Runs `f` on a fresh TensorDict, and frees everything. Throws if more tensors live afterwards than before. */
const withSample = async (
  { td }: ModuleSample,
  f: (td: TensorDict, outputOf: OutputOf) => Promise<void>,
): Promise<void> => {
  const before = liveTensors().count
  const input = td()
  const held = own(input)
  const made: TensorDict[] = []
  try {
    await f(input, async (mod, given) => {
      const result = await run(mod, given)
      if (isLeft(result)) throw new Error(`it failed: ${result.left.reason}`)
      made.push(result.right)
      return result.right
    })
  } finally {
    discard(made)
    held.release()
  }
  const left = liveTensors().count - before
  require(left === 0, () => `${left} tensors live on after everything was freed`)
}

const requireEqual = (a: TensorDict, b: TensorDict, what: string): void => {
  require(equals(a, b), () => `${what}:\n${format(a)}\n${format(b)}`)
}

/** The module, which calls `onRun` before each of its leaf modules runs. */
const watched = (mod: AnyMod, onRun: () => void): AnyMod => {
  const { kind } = mod
  const inside = (each: AnyMod): AnyMod => watched(each, onRun)
  switch (kind._tag) {
    case 'Leaf':
      return modOf({
        ...mod,
        kind: {
          _tag: 'Leaf',
          call: (inputs) => {
            onRun()
            return kind.call(inputs)
          },
        },
      })
    case 'Seq':
    case 'Parallel':
      return modOf({ ...mod, kind: { ...kind, mods: kind.mods.map(inside) } })
    case 'Pick':
    case 'Remap':
      return modOf({ ...mod, kind: { ...kind, mod: inside(kind.mod) } })
    case 'Branch':
      return modOf({
        ...mod,
        kind: { ...kind, cases: new Map([...kind.cases].map(([name, each]) => [name, inside(each)] as const)) },
      })
  }
}

/** The modules one after the other, and those of them that have run, in that order. */
const logged = (mods: readonly AnyMod[]): { readonly mod: AnyMod; readonly log: Set<AnyMod> } => {
  const log = new Set<AnyMod>()
  return { log, mod: seqOf(mods.map((each) => watched(each, () => log.add(each)))) }
}

/** A part of a list, drawn as a number. */
const partOf = <T>(items: readonly T[], bits: number): readonly T[] => items.filter((_, i) => (bits >> (i % 30)) & 1)

const frame = async (sample: ModuleSample): Promise<void> =>
  withSample(sample, async (td, outputOf) => {
    const mod = seqOf(sample.mods)
    const before = JSON.stringify(toNested(td))
    const result = await outputOf(mod, td)
    const isOutput = (path: readonly string[]): boolean => mod.outKeys.some((out) => pathId(out) === pathId(path))
    for (const [path, leaf] of leafEntries(td)) {
      require(isOutput(path) || find(result, path) === leaf, () => `${formatPath(path)} is another object`)
    }
    for (const [path] of leafEntries(result)) {
      require(isOutput(path) || find(td, path) !== undefined, () => `${formatPath(path)} was added, but is no outKey`)
    }
    for (const path of mod.outKeys) require(find(result, path) !== undefined, () => `${formatPath(path)} is missing`)
    require(JSON.stringify(toNested(td)) === before, () => 'the input was changed')
  })

const locality = async (sample: ModuleSample): Promise<void> =>
  withSample(sample, async (td, outputOf) => {
    const mod = seqOf(sample.mods)
    const [whole, alone] = [await outputOf(mod, td), await outputOf(mod, restrict(td, mod.inKeys))]
    requireEqual(restrict(whole, mod.outKeys), restrict(alone, mod.outKeys), 'the rest of the TensorDict matters')
  })

const associativity = async (sample: ModuleSample, place: number): Promise<void> =>
  withSample(sample, async (td, outputOf) => {
    const { mods } = sample
    const cuts = [place, Math.floor(place / 7)].map((drawn) => drawn % (mods.length + 1)).sort((a, b) => a - b)
    const [first, second, third] = [mods.slice(0, cuts[0]), mods.slice(...cuts), mods.slice(cuts[1])].map(seqOf)
    const [whole, left, right] = [
      seqOf(mods),
      seqOf([seqOf([first!, second!]), third!]),
      seqOf([first!, seqOf([second!, third!])]),
    ] // three were made
    const rest = seqOf([second!, third!])
    const expected = first!.inKeys.concat(
      rest.inKeys.filter((path) => !first!.outKeys.some((out) => isAtOrBelow(path, out))),
    )
    const ids = (paths: readonly ModPath[]): string => [...new Set(paths.map(pathId))].sort().join()
    require(ids(whole.inKeys) === ids(expected), () => `it reads ${whole.inKeys.map(formatPath).join(', ')}`)
    require(ids(left.inKeys) === ids(openInputs(mods)) && ids(left.inKeys) === ids(right.inKeys), () =>
      'grouping changes what is read')
    const result = await outputOf(whole, td)
    for (const grouped of [left, right, seqOf([identityMod, whole]), seqOf([whole, identityMod])]) {
      requireEqual(result, await outputOf(grouped, td), 'grouping, or the identity, changes the result')
    }
  })

const pruning = async (sample: ModuleSample, bits: number): Promise<void> =>
  withSample(sample, async (td, outputOf) => {
    const { mod, log } = logged(sample.mods)
    const wanted = partOf(mod.outKeys, bits)
    if (wanted.length === 0) return
    const whole = await outputOf(mod, td)
    log.clear()
    const keys: readonly ModKey[] = wanted
    // A cast: the kit names paths, not types.
    const part = await outputOf(subgraph(mod as Mod<unknown, unknown>, ...(keys as readonly never[])), td)
    for (const path of wanted) {
      requireEqual(restrict(part, [path]), restrict(whole, [path]), `${formatPath(path)} differs`)
    }
    const ran = [...log]
    for (const [i, each] of ran.entries()) {
      const isNeeded = each.outKeys.some(
        (out) =>
          wanted.some((path) => pathId(path) === pathId(out)) ||
          ran.slice(i + 1).some(({ inKeys }) => inKeys.some((path) => isAtOrBelow(out, path))),
      )
      require(isNeeded, () => `${JSON.stringify(each.name)} ran, though nothing needs what it writes`)
    }
  })

const determinism = async (sample: ModuleSample): Promise<void> =>
  withSample(sample, async (td, outputOf) => {
    const mod = seqOf(sample.mods)
    const [first, second] = [await outputOf(mod, td), await outputOf(mod, td)]
    requireEqual(first, second, 'equal inputs give different outputs')
    for (const { path } of mod.streams) {
      const isWritten = mod.outKeys.some((out) => pathId(out) === pathId(path))
      require(isWritten || entryAt(first, path) === entryAt(td, path), () =>
        `the key at ${formatPath(path)} was changed`)
    }
  })

const missing = async (sample: ModuleSample, bits: number): Promise<void> =>
  withSample(sample, async (td) => {
    const { mod, log } = logged(sample.mods)
    const removed = partOf(mod.inKeys, bits)
    if (removed.length === 0) return
    const kept = mod.inKeys.filter((path) => !removed.includes(path))
    const result = await run(mod, restrict(td, kept))
    if (isRight(result)) throw new Error('it runs without its inputs')
    const named = result.left.problems.map(({ path }) => pathId(path)).sort()
    require(named.join() === removed.map(pathId).sort().join(), () =>
      `${removed.map(formatPath).join(', ')} are missing, but it says: ${result.left.reason}`)
    require(log.size === 0, () => 'a module ran before')
  })

/**
 * The laws of modules, for one's own: each runs on modules and TensorDicts that `samples` draws. Modules that wait are modules too.
 *
 * Laws: 88 frame, 89 locality, 90 associativity and identity, 91 subgraphs, 92 determinism, 93 missing inputs; and in all of them
 * that no tensor is left.
 *
 * @example
 * moduleLaws(fc.constant({ mods: [identityMod], td: () => TensorDict({}, []) })).map((law) => law.number) // [88, 89, 90, 91, 92, 93]
 */
export const moduleLaws = (samples: fc.Arbitrary<ModuleSample>, numRuns = 30): readonly NumberedLaw[] => {
  const law = (
    number: number,
    title: string,
    check: (sample: ModuleSample, drawn: number) => Promise<void>,
  ): NumberedLaw => numbered(number, title, () => fc.assert(fc.asyncProperty(samples, fc.nat(), check), { numRuns }))
  return [
    law(88, 'a module keeps all other entries by reference, adds exactly its outKeys, and changes no input', frame),
    law(89, 'the outputs depend on the inKeys alone', locality),
    law(
      90,
      'seq is associative, the identity is neutral, and what is read is what nothing before writes',
      associativity,
    ),
    law(91, 'a subgraph gives the same values, and never runs a module whose outputs are not used', pruning),
    law(92, 'equal TensorDicts, random keys included, give equal outputs, and no key is changed', determinism),
    law(93, 'missing inputs are all reported, before anything runs', missing),
  ]
}
