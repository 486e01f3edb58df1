/** Games as environments of token ids. */

import { type AgentSpeech, agentTemplate } from '@tandem-rl/agents'
import { pipe } from 'fp-ts/lib/function.js'
import { append, type Env, type TextEntries, type TokenAction, type TokenPrompt } from 'tandem-rl'
import type { DeepMerge } from 'tandem-rl/tensordict'
import { GameEnv, type GameEnvOptions, type GameEnvState } from './gameEnv.js'

/** The states of a `gameTokenEnv`. */
export type GameTokenState = DeepMerge<DeepMerge<GameEnvState, TextEntries>, TokenPrompt>

/**
 * A `GameEnv` with the template and tokenizer of a model: `agentTemplate`, whose prompts go on or
 * begin anew as `text.memory` has it.
 *
 * Errors   as `GameEnv` and `agentTemplate`.
 */
export const gameTokenEnv = <P>(options: GameEnvOptions<P>, speech: AgentSpeech): Env<GameTokenState, TokenAction> =>
  pipe(
    GameEnv(options),
    append(agentTemplate({ speech, prompts: options.text?.memory === 'turn' ? 'fresh' : 'continued' })),
  ) as unknown as Env<GameTokenState, TokenAction> // with the entries of both
