import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { DEFAULT_SETTINGS, parseSettings, type RunSettings, resumeSettings } from '../../src/run/settings.js'
import { requireRight } from '../../src/testing/results.js'

const natural = fc.integer({ min: 1, max: 1000 })
const positive = fc.double({ min: 1e-9, max: 100, noNaN: true })
const folder = fc.string({ minLength: 1 })

const anySettings: fc.Arbitrary<RunSettings> = fc.record({
  model: folder,
  dataset: fc.option(folder),
  evalDataset: fc.option(folder),
  seed: fc.maxSafeNat(),
  steps: natural,
  prompts: natural,
  group: fc.integer({ min: 2, max: 64 }),
  maxNewTokens: natural,
  temperature: positive,
  learningRate: positive,
  clipLow: fc.option(fc.double({ min: 0, max: 0.99, noNaN: true })),
  clipHigh: fc.option(positive),
  algorithm: fc.constantFrom('grpo', 'dapo', 'gspo'),
  klCoefficient: positive,
  epochs: natural,
  miniBatches: fc.constant(1),
  oldLogProbs: fc.constantFrom('sampled', 'rescored'),
  dynamicSampling: fc.option(natural),
  overlongCache: fc.constantFrom(null, 0, 1),
  overlongFactor: positive,
  truncated: fc.constantFrom('learn', 'mask'),
  alarms: fc.constantFrom('off', 'warn', 'stop'),
  alarmLimits: fc.constantFrom('none', 'truncation=0.2'),
  saveBatches: fc.option(natural),
  keepBatches: natural,
  correction: fc.constant('none'),
  correctionLow: fc.constant(null),
  correctionHigh: fc.constant(null),
  rejection: fc.constant('none'),
  rejectionLimit: fc.constant(null),
  optimizer: fc.constantFrom('adamw', 'muon'),
  optimizerOptions: fc.constantFrom('none', 'beta2=0.95,weightDecay=0.1'),
  schedule: fc.constant('constant'),
  warmup: natural,
  klIn: fc.constantFrom('reward', 'loss'),
  klForm: fc.constantFrom(null, 'k1'),
  klTarget: fc.constant(null),
  klHorizon: fc.constant(null),
  maxLag: fc.nat(3),
  stale: fc.constant('wait'),
  workers: fc.integer({ min: 1, max: 16 }),
  maxGradNorm: positive,
  evalEvery: natural,
  evalProblems: natural,
  checkpointEvery: natural,
  trajectories: natural,
  loraRank: fc.option(natural),
  loraAlpha: positive,
  loraTarget: fc.constantFrom('all-linear', 'q_proj,v_proj'),
  loraScaling: fc.constantFrom('alpha/rank', 'alpha/sqrt(rank)'),
  microBatch: natural,
  recompute: fc.constantFrom('none', 'layers'),
  dtype: fc.constantFrom(null, 'F32', 'BF16', 'F16'),
})

/** They change how long a run goes on and what it writes, not what it computes. */
const EXTENDABLE = [
  'steps',
  'evalEvery',
  'evalProblems',
  'checkpointEvery',
  'trajectories',
  'dtype',
  'alarms',
  'alarmLimits',
  'saveBatches',
  'keepBatches',
] as const

/** They came later: runs that do not name them did what their defaults say. */
const LATER = [
  'loraRank',
  'loraAlpha',
  'loraTarget',
  'loraScaling',
  'microBatch',
  'recompute',
  'dtype',
  'algorithm',
  'epochs',
  'miniBatches',
  'oldLogProbs',
  'dynamicSampling',
  'overlongCache',
  'overlongFactor',
  'truncated',
  'alarms',
  'alarmLimits',
  'saveBatches',
  'keepBatches',
  'correction',
  'correctionLow',
  'correctionHigh',
  'rejection',
  'rejectionLimit',
  'optimizer',
  'optimizerOptions',
  'schedule',
  'warmup',
  'klIn',
  'klForm',
  'klTarget',
  'klHorizon',
  'maxLag',
  'stale',
  'workers',
] as const

const stored: RunSettings = { model: '/models/a', ...DEFAULT_SETTINGS }
const FIXED = (Object.keys(stored) as (keyof RunSettings)[]) // the keys of a RunSettings
  .filter((name) => !(EXTENDABLE as readonly string[]).includes(name))

const only = <K extends keyof RunSettings>(settings: RunSettings, names: readonly K[]): Partial<RunSettings> =>
  Object.fromEntries(names.map((name) => [name, settings[name]]))

const reasonOf = (result: E.Either<{ readonly reason: string }, unknown>): string =>
  E.isLeft(result) ? result.left.reason : 'no failure'

describe('parseSettings', () => {
  it('reads back what was stored as JSON', () => {
    const law = fc.property(anySettings, (settings) => {
      expect(parseSettings(JSON.parse(JSON.stringify(settings)))).toEqual(E.right(settings))
    })
    fc.assert(law)
  })

  it('reads settings of earlier versions, which did neither more nor less than they do now', () => {
    const early = Object.fromEntries(
      Object.entries(stored).filter(([key]) => !(LATER as readonly string[]).includes(key)),
    )
    expect(parseSettings(early)).toEqual(E.right({ ...stored, dynamicSampling: 1, overlongCache: 0 }))
  })

  it('names the field that is missing', () => {
    const old = Object.keys(stored).filter((name) => !(LATER as readonly string[]).includes(name))
    const law = fc.property(anySettings, fc.constantFrom(...old), (settings, name) => {
      const rest = Object.fromEntries(Object.entries(settings).filter(([key]) => key !== name))
      expect(reasonOf(parseSettings(rest))).toContain(name)
    })
    fc.assert(law)
  })

  it('names a field that it does not know', () => {
    expect(reasonOf(parseSettings({ ...stored, learningrate: 1 }))).toContain('learningrate')
  })

  it.each([
    ['steps', 0],
    ['steps', 1.5],
    ['seed', -1],
    ['group', 1],
    ['temperature', 0],
    ['learningRate', Number.NaN],
    ['clipLow', 1],
    ['klCoefficient', -0.1],
    ['maxGradNorm', Number.POSITIVE_INFINITY],
    ['epochs', 0],
    ['miniBatches', 17],
    ['dynamicSampling', 0],
    ['overlongCache', 65],
    ['truncated', 'drop'],
    ['oldLogProbs', 'old'],
    ['model', 3],
    ['trajectories', -1],
  ])('refuses %s = %j and names it', (name, value) => {
    expect(reasonOf(parseSettings({ ...stored, [name]: value }))).toContain(name)
  })

  it.each([null, [], 'settings', 1, undefined])('refuses %j', (json) => {
    expect(E.isLeft(parseSettings(json))).toBe(true)
  })
})

describe('resumeSettings', () => {
  it('are the stored ones if nothing is asked, or the same', () => {
    const law = fc.property(anySettings, (settings) => {
      expect(resumeSettings(settings, {})).toEqual(E.right(settings))
      expect(resumeSettings(settings, settings)).toEqual(E.right(settings))
    })
    fc.assert(law)
  })

  it('take everything that may be extended, and nothing else', () => {
    const law = fc.property(anySettings, anySettings, fc.subarray([...EXTENDABLE]), (settings, other, names) => {
      const asked = only(other, names)
      expect(resumeSettings(settings, asked)).toEqual(E.right({ ...settings, ...asked }))
    })
    fc.assert(law)
  })

  it('are refused for any other difference, with the name and both values of each field that differs', () => {
    const law = fc.property(
      anySettings,
      anySettings,
      fc.subarray(FIXED, { minLength: 1 }),
      (settings, other, names) => {
        const different = names.filter((name) => settings[name] !== other[name])
        fc.pre(different.length > 0)
        const reason = reasonOf(resumeSettings(settings, only(other, names)))
        for (const name of different) {
          expect(reason).toContain(`${name} is ${JSON.stringify(settings[name])}, not ${JSON.stringify(other[name])}`)
        }
      },
    )
    fc.assert(law)
  })

  it('do not blame fields that agree', () => {
    const reason = reasonOf(resumeSettings(stored, { seed: 9, prompts: stored.prompts, steps: 1000 }))
    expect(reason).toContain('seed is 1, not 9')
    expect(reason).not.toMatch(/prompts is|steps is/)
    expect(reason).toContain('--out')
  })

  it('do not count an option that was not given', () => {
    const asked = { seed: undefined } as unknown as Partial<RunSettings> // as a parser of options gives it
    expect(resumeSettings(stored, asked)).toEqual(E.right(stored))
  })
})

describe('settings that do not agree', () => {
  it.each([
    [{ correctionHigh: 3 }, 'correction none has no limits'],
    [{ correction: 'token-truncated' }, 'needs oldLogProbs rescored'],
    [{ correction: 'token-truncated', oldLogProbs: 'rescored', correctionLow: 0.5 }, 'has no lower limit'],
    [{ correction: 'token-masked', oldLogProbs: 'rescored', correctionLow: 6 }, 'positive and in order'],
    [{ rejection: 'token-k2', oldLogProbs: 'rescored' }, 'give both or neither'],
    [{ rejectionLimit: 1 }, 'give both or neither'],
    [{ schedule: 'cosine', warmup: 60 }, 'leaves nothing of 60 steps'],
    [{ klForm: 'k3+' }, 'its divergence is k1, abs, k2, k3, k3-limited; give klForm k3+ with klIn loss'],
    [{ klTarget: 6, klCoefficient: 0.1 }, 'klTarget and klHorizon go together'],
    [{ klHorizon: 100, klCoefficient: 0.1 }, 'klTarget and klHorizon go together'],
    [{ klTarget: 6, klHorizon: 100, klCoefficient: 0 }, 'a weight of 0 stays 0'],
    [{ klTarget: 6, klHorizon: 100, klCoefficient: 0.1, klIn: 'loss' }, 'give klIn reward'],
    [{ stale: 'drop' }, 'with maxLag 0 nothing is stale'],
    [{ klForm: 'k4' }, 'klForm'],
  ])('%j are refused with the reason', (change, reason) => {
    expect(reasonOf(parseSettings({ ...stored, ...change }))).toContain(reason)
  })

  it('are refused on resuming where a schedule ends with the steps', () => {
    const falling = { ...stored, schedule: 'linear' } as const
    expect(reasonOf(resumeSettings(falling, { steps: 90 }))).toContain('steps is 60, not 90')
    expect(resumeSettings(falling, { evalEvery: 9 })).toEqual(E.right({ ...falling, evalEvery: 9 }))
  })
})

describe('the algorithm', () => {
  it('is GRPO with its range of ratios in runs of earlier versions', () => {
    const { algorithm: _, ...earlier } = { model: 'm', ...DEFAULT_SETTINGS, clipLow: 0.2, clipHigh: 0.2 }
    expect(requireRight(parseSettings(earlier))).toMatchObject({ algorithm: 'grpo', clipLow: 0.2 })
  })

  it.each([
    [{ algorithm: 'sapo', clipHigh: 0.3 }, 'sapo clips no ratios'],
    [{ algorithm: 'dppo', clipLow: 0 }, 'epsilon and largestRatio must be positive'],
    [{ algorithm: 'grop' }, 'reinforce++'],
  ])('%j is refused with the reason', (change, reason) => {
    const refused = parseSettings({ model: 'm', ...DEFAULT_SETTINGS, ...change })
    expect(refused).toMatchObject({ _tag: 'Left', left: { reason: expect.stringContaining(reason) } })
  })
})
