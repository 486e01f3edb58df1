/** Environments of MLGym tasks. */

import { checkOptions } from '@tandem-rl/base'
import type { Env, HistoryAction } from 'tandem-rl'
import { MAKE_MLGYM_OPTIONS } from '../optionKinds.js'
import { type MLGymEnvState, MLGymWrapper, type MLGymWrapperOptions } from './mlGymWrapper.js'
import { type ProcessMLGymOptions, processMLGym } from './processMLGym.js'
import { type MLGymSessions, mlgymSessions } from './sessions.js'

export interface MakeMLGymOptions extends Omit<MLGymWrapperOptions, 'sessions'> {
  /** Options of the MLGym process. */
  readonly mlgym?: ProcessMLGymOptions
  /** Maximum number of concurrent containers. Default 8. */
  readonly maxSessions?: number
}

/**
 * Makes an environment of an installed MLGym, and the sessions that hold its containers. Call
 * `await sessions.close()` at the end.
 *
 * Errors   as `MLGymWrapper` and `mlgymSessions`.
 * Source   TorchRL `make_mlgym`; templates and tokens are separate transforms, `TemplateTransform`
 *          and `Tokenizer`.
 *
 * @example
 * makeMLGym({ tasks: ['prisonersDilemma'], rewardWrongFormat: -0.1 }).env.name // 'MLGymWrapper'
 */
export const makeMLGym = (
  options: MakeMLGymOptions,
): { readonly env: Env<MLGymEnvState, HistoryAction>; readonly sessions: MLGymSessions } => {
  checkOptions('makeMLGym', options, MAKE_MLGYM_OPTIONS)
  const { mlgym, maxSessions, ...wrapper } = options
  const sessions = mlgymSessions({ mlgym: processMLGym(mlgym), ...(maxSessions !== undefined && { maxSessions }) })
  return { env: MLGymWrapper({ sessions, ...wrapper }), sessions }
}
