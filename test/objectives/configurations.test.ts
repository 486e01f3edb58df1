/** Settings that make no sense are refused where they are given, with the reason. Records read from JSON have no types: theirs are checked too. */
import { describe, expect, it } from 'vitest'
import {
  adaptiveKLController,
  cispo,
  clipCov,
  clippedSurrogate,
  DistillationLoss,
  dpoLoss,
  dppo,
  dro,
  GRPOLoss,
  gae,
  gdpoAdvantage,
  gmpo,
  gpgAdvantage,
  grpoAdvantage,
  gspo,
  klCov,
  klPenalizedRewards,
  luspo,
  MCAdvantage,
  opoAdvantage,
  passKAdvantage,
  policyLoss,
  reinforcePlusPlus,
  reinforcePlusPlusBaseline,
  rlooAdvantage,
  rolloutCorrection,
  SFTLoss,
  sapo,
  valueLoss,
  vespo,
  vTrace,
} from '../../src/objectives/index.js'

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
  adaptiveKLController: (text) =>
    adaptiveKLController({ initial: 0, target: 1, horizon: 1, ...(fromJSON(text) as object) }),
}

describe('settings', () => {
  it.each(Object.keys(TAKERS))(
    '%s takes none, and refuses one that it does not have, with the list of those that it has',
    (name) => {
      expect(() => TAKERS[name]!('{}')).not.toThrow()
      expect(() => TAKERS[name]!('{"gama": 1}')).toThrow(RangeError)
      expect(() => TAKERS[name]!('{"gama": 1}')).toThrow(/there is no setting gama \(the settings are /)
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
    ['policyLoss', '{"kl": [{"to": "reference"}]}', /must be finite, got undefined/],
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

  it('tells all problems of a record at once', () => {
    expect(() => TAKERS.SFTLoss!('{"beta": "1", "reduction": "none", "x": 1}')).toThrow(
      /beta must be a number, got "1"; reduction must be 'mean' or 'sum', got "none"; there is no setting x/,
    )
  })

  it('an objective of whole completions is refused an aggregation by tokens', () => {
    for (const objective of [gspo(), luspo(), gmpo(), sapo()])
      expect(() => policyLoss({ objective, aggregation: 'token-mean' }), objective.name).toThrow(
        /its aggregation is seq-mean/,
      )
  })

  it('a loss says what it needs before it is given anything', () => {
    expect(policyLoss({ kl: [{ to: 'reference', coefficient: 0.1 }] }).needs.reference).toBe('yes')
    expect(policyLoss().needs).toEqual({ entropy: 'metric', reference: 'no', noise: 'no' })
    expect(policyLoss({ objective: clipCov() }).needs.noise).toBe('yes')
    expect(SFTLoss().needs.reference).toBe('no')
    expect(SFTLoss({ klToRefCoefficient: 0.1 }).needs.reference).toBe('yes')
    expect(dpoLoss().needs.reference).toBe('yes')
    expect(dpoLoss({ reference: 'none' }).needs.reference).toBe('no')
  })
})
