/** Algorithms by name: an advantage estimator, a token objective, and an aggregation. */
import { checkOptions } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import type { DegenerateGroup } from './advantages/groupAdvantage.js'
import {
  gpgAdvantage,
  grpoAdvantage,
  opoAdvantage,
  passKAdvantage,
  reinforcePlusPlusBaseline,
  rlooAdvantage,
} from './advantages/outcome.js'
import type { RewardedRows, TokenAdvantages } from './advantages/rows.js'
import { reinforcePlusPlus } from './advantages/temporal.js'
import { ALGORITHM_LOSS_OPTIONS } from './optionKinds.js'
import { type KLTerm, type PolicyLoss, policyLoss } from './policyLoss.js'
import type { Aggregation } from './tokenLosses/aggregation.js'
import { cispo } from './tokenLosses/cispo.js'
import { clippedSurrogate } from './tokenLosses/clippedSurrogate.js'
import { clipCov, klCov } from './tokenLosses/covariance.js'
import { dppo } from './tokenLosses/dppo.js'
import { gmpo } from './tokenLosses/gmpo.js'
import { gspo } from './tokenLosses/gspo.js'
import { luspo } from './tokenLosses/luspo.js'
import { policyGradient } from './tokenLosses/policyGradient.js'
import { sapo } from './tokenLosses/sapo.js'
import type { TokenObjective } from './tokenLosses/tokenObjective.js'
import { vespo } from './tokenLosses/vespo.js'

/**
 * `[low, high]` for ratios within `1 - low .. 1 + high`; for GMPO log-ratios within `-low .. high`.
 */
export type ClipPair = readonly [low: number, high: number]

/** The components of an algorithm. */
export interface Algorithm {
  readonly title: string
  readonly source: string
  /** The difference from its source. */
  readonly differs?: string
  readonly advantage: (rows: RewardedRows) => E.Either<DegenerateGroup, TokenAdvantages>
  readonly objective: (clip: ClipPair) => TokenObjective
  /** The clip range of its source; null for objectives without one. */
  readonly clip: ClipPair | null
  /**
   * The maximum number of sampling rounds for one batch, until every group has a signal. Default 1:
   * no resampling.
   */
  readonly samplingRounds?: number
  /**
   * The share of the maximum length after which longer completions are penalized. Default 0: no
   * penalty.
   */
  readonly overlongShare?: number
  /**
   * Returns the aggregation. `longest` is the length that Dr. GRPO divides by: the maximum length
   * of a completion.
   */
  readonly aggregation: (longest: number) => Aggregation
}

const tokenMean = (): Aggregation => 'token-mean'
const sequenceMean = (): Aggregation => 'seq-mean-token-mean'
const surrogate = (clipEpsilon: ClipPair): TokenObjective => clippedSurrogate({ clipEpsilon })
const byDeviation = (rows: RewardedRows) => grpoAdvantage(rows)

const centered = (rows: RewardedRows) => grpoAdvantage(rows, { normalize: 'mean' })
const none = (): TokenObjective => policyGradient()

const GRPO = {
  title: 'Group Relative Policy Optimization',
  source: 'Shao et al. 2024, arXiv:2402.03300',
  advantage: byDeviation,
  objective: surrogate,
  clip: [0.2, 0.2],
  aggregation: tokenMean,
} as const satisfies Algorithm

const NAMED = {
  grpo: { ...GRPO, differs: 'tokens are averaged over the batch, as in TorchRL, not by completion' },
  dapo: {
    ...GRPO,
    title: 'Decoupled Clip and Dynamic Sampling Policy Optimization',
    source: 'Yu et al. 2025, arXiv:2503.14476',
    clip: [0.2, 0.28],
    samplingRounds: 10,
    overlongShare: 0.2,
  },
  'dr-grpo': {
    ...GRPO,
    title: 'GRPO done right',
    source: 'Liu et al. 2025, arXiv:2503.20783',
    advantage: centered,
    aggregation: (length: number): Aggregation => ({ mode: 'seq-mean-token-sum-norm', length }),
  },
  rloo: {
    title: 'REINFORCE leave-one-out',
    source: 'Ahmadian et al. 2024, arXiv:2402.14740',
    advantage: (rows: RewardedRows) => rlooAdvantage(rows),
    objective: none,
    clip: null,
    aggregation: (): Aggregation => 'seq-mean-token-sum',
  },
  'reinforce++': {
    ...GRPO,
    title: 'REINFORCE++',
    source: 'Hu et al. 2025, arXiv:2501.03262',
    advantage: (rows: RewardedRows) =>
      pipe(
        reinforcePlusPlus(rows),
        E.map(({ advantages }) => advantages),
      ),
  },
  'reinforce++-baseline': {
    ...GRPO,
    title: 'REINFORCE++ with a baseline',
    source: 'Hu et al. 2025, arXiv:2501.03262, section 3.3',
    advantage: (rows: RewardedRows) => reinforcePlusPlusBaseline(rows),
  },
  opo: {
    title: 'On-Policy RL with Optimal reward baseline',
    source: 'Hao et al. 2025, arXiv:2505.23585',
    advantage: (rows: RewardedRows) => opoAdvantage(rows),
    objective: none,
    clip: null,
    aggregation: tokenMean,
  },
  gpg: {
    title: 'Group Policy Gradient',
    source: 'Chu et al. 2025, arXiv:2504.02546',
    advantage: (rows: RewardedRows) => gpgAdvantage(rows),
    objective: none,
    clip: null,
    aggregation: tokenMean,
  },
  'pass-k': {
    ...GRPO,
    title: 'GRPO for the best of a group',
    source: 'Chow et al. 2024, arXiv:2412.15287',
    advantage: (rows: RewardedRows) => passKAdvantage(rows),
  },
  gspo: {
    ...GRPO,
    title: 'Group Sequence Policy Optimization',
    source: 'Zheng et al. 2025, arXiv:2507.18071',
    objective: (clipEpsilon: ClipPair) => gspo({ clipEpsilon }),
    clip: [3e-4, 4e-4],
    aggregation: sequenceMean,
  },
  luspo: {
    ...GRPO,
    title: 'Length-Unbiased Sequence Policy Optimization',
    source: '2026, arXiv:2602.05261',
    objective: (clipEpsilon: ClipPair) => luspo({ clipEpsilon }),
    clip: [3e-4, 4e-4],
    aggregation: (): Aggregation => 'seq-mean-token-sum',
  },
  cispo: {
    ...GRPO,
    title: 'Clipped IS-weight Policy Optimization',
    source: 'MiniMax 2025, arXiv:2506.13585',
    objective: (clipEpsilon: ClipPair) => cispo({ clipEpsilon }),
    clip: [1, 4],
  },
  gmpo: {
    ...GRPO,
    title: 'Geometric-Mean Policy Optimization',
    source: 'Zhao et al. 2025, arXiv:2507.20673',
    objective: (clipEpsilon: ClipPair) => gmpo({ clipEpsilon }),
    clip: [0.4, 0.4],
    aggregation: sequenceMean,
  },
  sapo: {
    ...GRPO,
    title: 'Soft Adaptive Policy Optimization',
    source: 'Gao et al. 2025, arXiv:2511.20347',
    objective: () => sapo(),
    clip: null,
    aggregation: sequenceMean,
  },
  vespo: {
    ...GRPO,
    title: 'Variational Sequence-Level Soft Policy Optimization',
    source: '2026, arXiv:2602.10693',
    objective: () => vespo(),
    clip: null,
  },
  dppo: {
    ...GRPO,
    title: 'Divergence Proximal Policy Optimization',
    source: 'Qi et al. 2026, arXiv:2602.04879',
    objective: (epsilon: ClipPair) => dppo({ epsilon }),
  },
  'clip-cov': {
    ...GRPO,
    title: 'Clip-Cov',
    source: 'Cui et al. 2025, arXiv:2505.22617',
    objective: (clipEpsilon: ClipPair) => clipCov({ clipEpsilon }),
  },
  'kl-cov': {
    ...GRPO,
    title: 'KL-Cov',
    source: 'Cui et al. 2025, arXiv:2505.22617',
    objective: () => klCov(),
    clip: null,
  },
} as const satisfies Readonly<Record<string, Algorithm>>

export type AlgorithmName = keyof typeof NAMED

/** The algorithms of `tandem train`, by name. */
export const ALGORITHMS: Readonly<Record<AlgorithmName, Algorithm>> = NAMED

/** The names in the order of the table. */
export const ALGORITHM_NAMES = Object.keys(NAMED) as readonly AlgorithmName[] // its own keys

/** Settings that override those of an algorithm; null for its own. */
export interface AlgorithmOptions {
  readonly clipLow: number | null
  readonly clipHigh: number | null
  /** The maximum number of tokens of a completion. */
  readonly longest: number
  /** A KL term in the loss. Default: none. */
  readonly kl?: KLTerm
}

/**
 * Creates the policy loss of an algorithm.
 *
 * Errors   throws RangeError for a clip range that is invalid for the objective, and for any range
 *          if it has none.
 *
 * @example
 * algorithmLoss('gspo', { clipLow: null, clipHigh: null, longest: 64 }).name // 'gspo'
 */
export const algorithmLoss = (name: AlgorithmName, options: AlgorithmOptions): PolicyLoss => {
  checkOptions('algorithmLoss', options, ALGORITHM_LOSS_OPTIONS)
  const { clipLow, clipHigh, longest, kl } = options
  const { clip, objective, aggregation } = ALGORITHMS[name]
  if (clip === null && (clipLow !== null || clipHigh !== null))
    throw new RangeError(`${name} clips no ratios: it takes neither clipLow nor clipHigh`)
  const [low, high] = clip ?? [0, 0]
  return policyLoss(
    {
      objective: objective([clipLow ?? low, clipHigh ?? high]),
      aggregation: aggregation(longest),
      ...(kl && { kl: [kl] }),
    },
    name,
  )
}
