/**
 * Settings that make no sense are refused where they are given, with the reason. Records read from
 * JSON have no types: theirs are checked too.
 */
import { describe, expect, it } from 'vitest'
import {
  AdaptiveKLController,
  ConstantKLController,
  cispo,
  clipCov,
  clippedSurrogate,
  dppo,
  dro,
  gae,
  gdpoAdvantage,
  gmpo,
  gpgAdvantage,
  groupAdvantage,
  grouped,
  grpoAdvantage,
  gspo,
  klCov,
  klPenalizedRewards,
  luspo,
  opoAdvantage,
  optimalTokenBaseline,
  passKAdvantage,
  reinforcePlusPlus,
  reinforcePlusPlusBaseline,
  rlooAdvantage,
  rolloutCorrection,
  sapo,
  segmentGAE,
  vespo,
  vTrace,
  weightAverage,
} from '../../src/doors/objectives.js'
import {
  adafactor,
  adamW,
  DistillationLoss,
  dpoLoss,
  GRPOLoss,
  lion,
  MCAdvantage,
  muon,
  policyLoss,
  SFTLoss,
  sgd,
  valueLoss,
} from '../../src/index.js'

/** A record as JSON gives it, for a function that says what it takes. */
const fromJSON = (text: string) => JSON.parse(text) as never // JSON has no types: that is what is tested

const ROWS = { groups: ['a', 'a'], rewards: [[0], [1]], mask: [[1], [1]] }
const CORRECTED = { rewards: [[0]], logProbs: [[0]], reference: [[0]], mask: [[1]] }

/** Every function that takes settings, on the settings of a JSON text. */
const TAKERS: Readonly<Record<string, (text: string) => unknown>> = {
  clippedSurrogate: (text) => clippedSurrogate(fromJSON(text)),
  cispo: (text) => cispo(fromJSON(text)),
  gspo: (text) => gspo(fromJSON(text)),
  luspo: (text) => luspo(fromJSON(text)),
  gmpo: (text) => gmpo(fromJSON(text)),
  sapo: (text) => sapo(fromJSON(text)),
  vespo: (text) => vespo(fromJSON(text)),
  dppo: (text) => dppo(fromJSON(text)),
  dro: (text) => dro(fromJSON(text)),
  clipCov: (text) => clipCov(fromJSON(text)),
  klCov: (text) => klCov(fromJSON(text)),
  policyLoss: (text) => policyLoss(fromJSON(text)),
  GRPOLoss: (text) => GRPOLoss(fromJSON(text)),
  SFTLoss: (text) => SFTLoss(fromJSON(text)),
  dpoLoss: (text) => dpoLoss(fromJSON(text)),
  DistillationLoss: (text) => DistillationLoss(fromJSON(text)),
  valueLoss: (text) => valueLoss(fromJSON(text)),
  adamW: (text) => adamW(fromJSON(text)),
  sgd: (text) => sgd(fromJSON(text)),
  lion: (text) => lion(fromJSON(text)),
  muon: (text) => muon(fromJSON(text)),
  adafactor: (text) => adafactor(fromJSON(text)),
  weightAverage: (text) => weightAverage({ decay: 0.9, ...(fromJSON(text) as object) }),
  grouped: (text) => grouped([{ name: 'all', optimizer: sgd(), ...(fromJSON(text) as object) }]),
  segmentGAE: (text) => segmentGAE(ROWS, ROWS.rewards, fromJSON(text)),
  optimalTokenBaseline: (text) =>
    optimalTokenBaseline(ROWS, { chosen: ROWS.rewards, sumOfSquares: ROWS.rewards }, fromJSON(text)),
  groupAdvantage: (text) => groupAdvantage([0, 1], fromJSON(text)),
  MCAdvantage: (text) => MCAdvantage({ groupSize: 2, ...(fromJSON(text) as object) }),
  grpoAdvantage: (text) => grpoAdvantage(ROWS, fromJSON(text)),
  gdpoAdvantage: (text) => gdpoAdvantage(ROWS, [{ rewards: ROWS.rewards, weight: 1 }], fromJSON(text)),
  rlooAdvantage: (text) => rlooAdvantage(ROWS, fromJSON(text)),
  opoAdvantage: (text) => opoAdvantage(ROWS, fromJSON(text)),
  gpgAdvantage: (text) => gpgAdvantage(ROWS, fromJSON(text)),
  passKAdvantage: (text) => passKAdvantage(ROWS, fromJSON(text)),
  reinforcePlusPlus: (text) => reinforcePlusPlus(ROWS, fromJSON(text)),
  reinforcePlusPlusBaseline: (text) => reinforcePlusPlusBaseline(ROWS, fromJSON(text)),
  gae: (text) => gae(ROWS, ROWS.rewards, fromJSON(text)),
  vTrace: (text) => vTrace(ROWS, { values: ROWS.rewards, logRatios: ROWS.rewards }, fromJSON(text)),
  rolloutCorrection: (text) => rolloutCorrection([[0]], [[1]], fromJSON(text)),
  klPenalizedRewards: (text) => klPenalizedRewards(CORRECTED, { coefficient: 1, ...(fromJSON(text) as object) }),
  AdaptiveKLController: (text) =>
    AdaptiveKLController({ initial: 0, target: 1, horizon: 1, ...(fromJSON(text) as object) }),
}

describe('settings', () => {
  it.each(Object.keys(TAKERS))(
    '%s takes none, and refuses one that it does not have, with the list of those that it has',
    (name) => {
      expect(() => TAKERS[name]!('{}')).not.toThrow()
      expect(() => TAKERS[name]!('{"gama": 1}')).toThrow(RangeError)
      expect(() => TAKERS[name]!('{"gama": 1}')).toThrow(/unknown option 'gama'.*\(the options are /)
    },
  )

  it.each<readonly [string, string, RegExp]>([
    ['clippedSurrogate', '{"clipEpsilon": "0.2"}', /clipEpsilon must be a number or two, got "0.2"/],
    ['clippedSurrogate', '{"dualClip": 1}', /dualClip must be above 1, got 1/],
    ['clippedSurrogate', '{"dualClip": 0.5}', /dualClip must be above 1/],
    ['clippedSurrogate', '{"clipEpsilon": [0.2, 0.2, 0.2]}', /a number or two, got \[0.2,0.2,0.2\]/],
    [
      'GRPOLoss',
      '{"aggregation": "token_mean"}',
      /aggregation must be 'token-mean' or 'prompt-mean', got "token_mean"/,
    ],
    ['GRPOLoss', '{"clipEpsilon": null}', /clipEpsilon must be a number or two, got null/],
    ['gspo', '{"form": "tokens"}', /form must be 'sequence' or 'token'/],
    ['dppo', '{"divergence": "js"}', /divergence must be 'tv' or 'kl'/],
    ['vespo', '{"positive": {"power": 1}}', /got 1 and undefined/],
    ['policyLoss', '{"aggregation": "token_mean"}', /aggregation must be 'token-mean'/],
    ['policyLoss', '{"aggregation": {"mode": "seq-mean-token-sum-norm", "length": 0}}', /length .* must be positive/],
    ['policyLoss', '{"kl": [{"to": "ref", "coefficient": 1}]}', /to must be 'reference' or 'behavior', got "ref"/],
    ['policyLoss', '{"kl": [{"to": "reference", "coefficient": 1, "form": "k4"}]}', /form must be 'k1' or /],
    ['policyLoss', '{"kl": [{"to": "reference"}]}', /must not be negative, got undefined/],
    [
      'policyLoss',
      '{"kl": [{"to": "reference", "coefficient": -1}]}',
      /divergence to the reference policy must not be/,
    ],
    ['policyLoss', '{"klMaskThreshold": -1}', /klMaskThreshold must not be negative, got -1/],
    ['GRPOLoss', '{"klToRefCoefficient": -0.1}', /klToRefCoefficient must not be negative/],
    ['MCAdvantage', '{"epsilon": -1}', /epsilon must not be negative, got -1/],
    ['groupAdvantage', '{"epsilonRule": "max"}', /epsilonRule must be 'floor' or 'add'/],
    ['grpoAdvantage', '{"epsilon": -1}', /epsilon must not be negative/],
    ['passKAdvantage', '{"epsilon": -1}', /epsilon must not be negative/],
    ['adamW', '{"beta1": 1}', /beta1 must be from 0 to below 1, got 1/],
    ['adamW', '{"lr": 1}', /unknown option 'lr'/],
    ['sgd', '{"form": "heavy"}', /form must be 'classical' or 'nesterov'/],
    ['lion', '{"weightDecay": -1}', /weightDecay must not be negative/],
    ['muon', '{"iterations": 2.5}', /iterations must be a whole number from 1, got 2.5/],
    ['muon', '{"scale": "adam"}', /scale must be 'original' or 'match-adamw'/],
    ['adafactor', '{"clip": 0}', /clip must be positive, got 0/],
    ['adafactor', '{"decay": 0.8}', /decay must be negative/],
    ['weightAverage', '{"decay": 1}', /decay must be from 0 to below 1/],
    ['grouped', '{"learningRateScale": -1}', /learningRateScale of all must not be negative, got -1/],
    ['grouped', '{"has": "bias"}', /has must be a function, got "bias"/],
    ['rolloutCorrection', '{"reject": [{"statistic": "token-k1", "limit": 0.5}]}', /means 1\/L to L .* got 0.5/],
    ['klPenalizedRewards', '{"coefficient": -1}', /coefficient must not be negative, got -1/],
    ['AdaptiveKLController', '{"horizon": 0}', /must be positive/],
    ['optimalTokenBaseline', '{"align": "rows"}', /align must be 'tokens' or 'columns'/],
    ['policyLoss', '{"kl": {"to": "reference"}}', /kl must be a list/],
    ['SFTLoss', '{"beta": 1}', /beta is a setting of minor_sft/],
    ['SFTLoss', '{"lossFunction": "minor_sft", "klToRefCoefficient": 0.1}', /has no klToRefCoefficient/],
    ['SFTLoss', '{"klToRefCoefficient": -1}', /must not be negative/],
    ['dpoLoss', '{"labelSmoothing": 0.5}', /from 0 to below 0.5, got 0.5/],
    ['dpoLoss', '{"form": "ipo", "labelSmoothing": 0.1}', /labelSmoothing is a setting of sigmoid/],
    ['dpoLoss', '{"beta": 0}', /beta must be positive/],
    ['DistillationLoss', '{"klDirection": "both"}', /klDirection must be 'reverse' or 'forward'/],
    ['valueLoss', '{"clipEpsilon": 0}', /clipEpsilon must be positive/],
    ['MCAdvantage', '{"normalize": "std"}', /normalize must be 'mean-std' or /],
    ['gae', '{"whitened": true}', /whitened must be 'yes' or 'no', got true/],
    ['rolloutCorrection', '{"weights": {"level": "row", "limit": 2}}', /level must be 'token' or 'sequence'/],
    ['rolloutCorrection', '{"reject": [{"statistic": "token-k4", "limit": 2}]}', /statistic must be 'token-k1' or /],
  ])('%s refuses %s', (name, text, reason) => {
    expect(() => TAKERS[name]!(text)).toThrow(RangeError)
    expect(() => TAKERS[name]!(text)).toThrow(reason)
  })

  /**
   * No setting that is a number may be NaN, and none infinite but those that then say "no limit".
   */
  const NUMBERS: Readonly<Record<string, (x: number) => unknown>> = {
    'clippedSurrogate low': (x) => clippedSurrogate({ clipEpsilon: [x, 0.2] }),
    'clippedSurrogate high': (x) => clippedSurrogate({ clipEpsilon: [0.2, x] }),
    'clippedSurrogate dualClip': (x) => clippedSurrogate({ dualClip: x }),
    cispo: (x) => cispo({ clipEpsilon: x }),
    gspo: (x) => gspo({ clipEpsilon: x }),
    luspo: (x) => luspo({ clipEpsilon: x }),
    gmpo: (x) => gmpo({ clipEpsilon: x }),
    'sapo positive': (x) => sapo({ positive: x }),
    'sapo negative': (x) => sapo({ negative: x }),
    'vespo power': (x) => vespo({ positive: { power: x, decay: 1 } }),
    'vespo decay': (x) => vespo({ negative: { power: 1, decay: x } }),
    dppo: (x) => dppo({ epsilon: x }),
    dro: (x) => dro({ beta: x }),
    'clipCov share': (x) => clipCov({ share: x }),
    'klCov share': (x) => klCov({ share: x }),
    'klCov coefficient': (x) => klCov({ coefficient: x }),
    'policyLoss entropyCoefficient': (x) => policyLoss({ entropyCoefficient: x }),
    'policyLoss klMaskThreshold': (x) => policyLoss({ klMaskThreshold: x }),
    'policyLoss kl': (x) => policyLoss({ kl: [{ to: 'behavior', coefficient: x }] }),
    'policyLoss length': (x) => policyLoss({ aggregation: { mode: 'seq-mean-token-sum-norm', length: x } }),
    'GRPOLoss clipEpsilon': (x) => GRPOLoss({ clipEpsilon: x }),
    'GRPOLoss klToRefCoefficient': (x) => GRPOLoss({ klToRefCoefficient: x }),
    'GRPOLoss klToInferenceCoefficient': (x) => GRPOLoss({ klToInferenceCoefficient: x }),
    'SFTLoss beta': (x) => SFTLoss({ lossFunction: 'minor_sft', beta: x }),
    'SFTLoss klToRefCoefficient': (x) => SFTLoss({ klToRefCoefficient: x }),
    'dpoLoss beta': (x) => dpoLoss({ beta: x }),
    'dpoLoss labelSmoothing': (x) => dpoLoss({ labelSmoothing: x }),
    valueLoss: (x) => valueLoss({ clipEpsilon: x }),
    'DistillationLoss length': (x) => DistillationLoss({ aggregation: { mode: 'seq-mean-token-sum-norm', length: x } }),
    'MCAdvantage groupSize': (x) => MCAdvantage({ groupSize: x }),
    'MCAdvantage epsilon': (x) => MCAdvantage({ groupSize: 2, epsilon: x }),
    'gdpoAdvantage weight': (x) => gdpoAdvantage(ROWS, [{ rewards: ROWS.rewards, weight: x }]),
    'gae gamma': (x) => gae(ROWS, ROWS.rewards, { gamma: x }),
    'gae lambda': (x) => gae(ROWS, ROWS.rewards, { lambda: x }),
    'reinforcePlusPlus gamma': (x) => reinforcePlusPlus(ROWS, { gamma: x }),
    ConstantKLController,
    'AdaptiveKLController initial': (x) => AdaptiveKLController({ initial: x, target: 1, horizon: 1 }),
    'AdaptiveKLController target': (x) => AdaptiveKLController({ initial: 1, target: x, horizon: 1 }),
    'klPenalizedRewards coefficient': (x) => klPenalizedRewards(CORRECTED, { coefficient: x }),
    'adamW epsilon': (x) => adamW({ epsilon: x }),
    'adamW beta2': (x) => adamW({ beta2: x }),
    'sgd momentum': (x) => sgd({ momentum: x }),
    'lion beta1': (x) => lion({ beta1: x }),
    'muon weightDecay': (x) => muon({ weightDecay: x }),
    'muon iterations': (x) => muon({ iterations: x }),
    'adafactor epsilon1': (x) => adafactor({ epsilon1: x }),
    weightAverage: (x) => weightAverage({ decay: x }),
    'grouped learningRateScale': (x) => grouped([{ name: 'a', optimizer: sgd(), learningRateScale: x }]),
  }

  it.each(Object.keys(NUMBERS))('%s is refused NaN and infinity', (name) => {
    for (const x of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])
      expect(() => NUMBERS[name]!(x), String(x)).toThrow(RangeError)
  })

  it.each<readonly [string, (x: number) => unknown]>([
    ['dppo largestRatio', (x) => dppo({ largestRatio: x })],
    ['vTrace largestRho', (x) => vTrace(ROWS, { values: ROWS.rewards, logRatios: ROWS.rewards }, { largestRho: x })],
    ['vTrace largestC', (x) => vTrace(ROWS, { values: ROWS.rewards, logRatios: ROWS.rewards }, { largestC: x })],
    ['rolloutCorrection', (x) => rolloutCorrection([[0]], [[1]], { weights: { level: 'token', limit: x } })],
  ])('%s may be infinite, for no limit, and is refused NaN, 0 and less', (_, take) => {
    expect(() => take(Number.POSITIVE_INFINITY)).not.toThrow()
    for (const x of [Number.NaN, 0, -1]) expect(() => take(x), String(x)).toThrow(RangeError)
  })

  it('a controller is refused a divergence of which no weight follows', () => {
    const controller = AdaptiveKLController({ initial: 0.1, target: 6, horizon: 100 })
    expect(() => controller.update(Number.NaN, 8)).toThrow(/the divergence is NaN/)
    expect(() => controller.update(6, -1)).toThrow(/count of completions must not be negative, got -1/)
    expect(controller.update(Number.POSITIVE_INFINITY, 10).coefficient).toBeCloseTo(0.1 * 1.02, 12)
  })

  it('reports all reasons of a loss at once', () => {
    const kl = [
      { to: 'reference', coefficient: -1 },
      { to: 'reference', coefficient: 1 },
    ] as const
    expect(() => policyLoss({ objective: gspo(), aggregation: 'token-mean', kl, klMaskThreshold: -2 })).toThrow(
      /gspo is a loss of sequences.*; two divergences to the same policy; .* got -1; klMaskThreshold .* got -2/,
    )
    expect(() => MCAdvantage({ groupSize: 0, keepReturnBounds: [1, 0] })).toThrow(/groupSize .*; keepReturnBounds /)
  })

  it('reports all problems of a record at once', () => {
    expect(() => TAKERS.SFTLoss!('{"beta": "1", "reduction": "none", "x": 1}')).toThrow(
      /beta must be a number, got "1"; reduction must be 'mean' or 'sum' or 'token-mean', got "none"; unknown option 'x'/,
    )
  })

  it('an objective of whole completions is refused an aggregation by tokens', () => {
    for (const objective of [gspo(), luspo(), gmpo(), sapo()])
      expect(() => policyLoss({ objective, aggregation: 'token-mean' }), objective.name).toThrow(
        /its aggregation is seq-mean/,
      )
  })

  it('a loss declares its inputs before it gets any', () => {
    const reference = 'next.refLogProbs.response'
    expect(policyLoss({ kl: [{ to: 'reference', coefficient: 0.1 }] }).reads).toContain(reference)
    expect(policyLoss().reads).not.toContain(reference)
    expect(policyLoss().needs).toEqual({ entropy: 'metric', noise: 'none', head: 'none' })
    expect(policyLoss({ objective: clipCov() }).needs.noise).toBe('uniform')
    expect(SFTLoss().reads).not.toContain(reference)
    expect(SFTLoss({ klToRefCoefficient: 0.1 }).reads).toContain(reference)
    expect(dpoLoss().reads).toContain('chosen.refLogProbs.response')
    expect(dpoLoss({ reference: 'none' }).reads).not.toContain('chosen.refLogProbs.response')
  })
})
