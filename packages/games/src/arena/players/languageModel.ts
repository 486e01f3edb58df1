/** Language models as players. */
import { checkOptions } from '@tandem-rl/base'
import { History, type Message, message, textOf } from '@tandem-rl/text'
import { discard } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { HistoryAction, HistoryPrompt, Policy, PolicyFailure } from 'tandem-rl'
import type { ReplyScorer } from 'tandem-rl/remote'
import { data, find, findData, get, raggedRow, TensorDict } from 'tandem-rl/tensordict'
import { type GamePromptOptions, playableText } from '../../games/gameText.js'
import { LANGUAGE_MODEL_PLAYER_OPTIONS } from '../../optionKinds.js'
import { type MoveUsage, type Player, type PlayerFailure, playerFailure, type Scene } from './player.js'
import { readMove } from './simple.js'

export interface LanguageModelPlayerOptions extends GamePromptOptions {
  readonly policy: Policy<HistoryPrompt, HistoryAction>
  /** Default: the name of the policy. */
  readonly name?: string
  /** Default: no system message. */
  readonly systemPrompt?: string
  /** Scores replies. With it, the player has `probabilities`. */
  readonly scoreReplies?: ReplyScorer
}

/** The conversation of a turn: the prompt, and illegal replies with their feedback. */
const conversationOf = (scene: Scene, { systemPrompt, actions }: LanguageModelPlayerOptions): History => {
  const system = systemPrompt === undefined ? [] : [message('system', systemPrompt)]
  const prompt = message('user', scene.prompt({ ...(actions !== undefined && { actions }) }))
  const corrections = scene.attempts.flatMap(({ reply, reason }) => [
    message('assistant', reply),
    message('user', `This move is not possible: ${reason}. Answer again with a legal action in square brackets.`),
  ])
  return History([...system, prompt, ...corrections])
}

const isUsage = (value: unknown): value is MoveUsage =>
  typeof value === 'object' &&
  value !== null &&
  'promptTokens' in value &&
  typeof value.promptTokens === 'number' &&
  'completionTokens' in value &&
  typeof value.completionTokens === 'number'

/** Returns the length of the first row of ids, if there is one. */
const lengthOf = (action: TensorDict, entry: 'prompt' | 'response'): number | undefined => {
  const rows = find(action, ['tokens', entry])
  return rows !== undefined && '_tag' in rows && rows._tag === 'Ragged' ? raggedRow(rows, 0).length : undefined
}

/** Returns the tokens of an answer: as the server reported them, else as the ids count them. */
const usageOf = (action: TensorDict): MoveUsage | undefined => {
  const [reported] = findData<unknown>(action, 'answer') ?? []
  if (typeof reported === 'object' && reported !== null && 'usage' in reported && isUsage(reported.usage))
    return reported.usage
  const [promptTokens, completionTokens] = [lengthOf(action, 'prompt'), lengthOf(action, 'response')]
  return promptTokens === undefined || completionTokens === undefined ? undefined : { promptTokens, completionTokens }
}

const failureOf = (failure: PolicyFailure): PlayerFailure =>
  playerFailure(failure.kind === 'cancelled' ? 'cancelled' : 'infrastructure', failure.reason, failure)

/** The text before the last square brackets, or the model's separate reasoning. */
const reasoningOf = (reply: Message): string => {
  const text = textOf(reply)
  const open = text.lastIndexOf('[')
  return reply.reasoning ?? text.slice(0, open === -1 ? text.length : open).trim()
}

/** Turns log-probabilities of replies into probabilities that add up to 1. */
const normalized = (logProbs: readonly number[]): readonly number[] => {
  const highest = Math.max(...logProbs)
  const weights = logProbs.map((each) => Math.exp(each - highest))
  const sum = weights.reduce((total, each) => total + each, 0)
  return weights.map((each) => each / sum)
}

/**
 * Makes a player of a language model: any policy over conversations. It reads the prompt of the
 * scene, and its action is taken from the square brackets of its reply. After an illegal move it
 * reads its own reply and the reason.
 *
 * With `scoreReplies`, `probabilities` are those of answering with one action in brackets at once,
 * without reasoning, divided by their sum over the legal actions.
 *
 * Errors   a failure of the policy is a PlayerFailure of kind `infrastructure` or `cancelled`, and
 *          never an illegal move.
 *
 * @example
 * languageModelPlayer({ policy: scriptedHistoryPolicy({ answers: ['[Bet]'] }), name: 'always bet' }).name // 'always bet'
 */
export const languageModelPlayer = (options: LanguageModelPlayerOptions): Player => {
  checkOptions('languageModelPlayer', options, LANGUAGE_MODEL_PLAYER_OPTIONS)
  const { policy, name = policy.name, scoreReplies } = options
  return {
    name,
    move:
      (scene, { key, signal }) =>
      async () => {
        const state = TensorDict({ history: { prompt: data([conversationOf(scene, options)]) } }, [1])
        const acted = await policy.act(state, key, { signal })()
        if (E.isLeft(acted)) return E.left(failureOf(acted.left))
        const reply = get(acted.right, 'history', 'response').items.get(0)!
        const usage = usageOf(acted.right)
        discard(acted.right)
        const reasoning = reasoningOf(reply)
        const text = textOf(reply)
        return E.right({
          ...readMove(scene, playableText(reply)),
          text,
          ...(reasoning !== '' && { reasoning }),
          ...(usage !== undefined && { usage }),
        })
      },
    ...(scoreReplies !== undefined && {
      probabilities: (scene) =>
        pipe(
          scoreReplies(
            conversationOf(scene, options),
            scene.actionTexts.map((text) => `[${text}]`),
          ),
          TE.bimap(failureOf, normalized),
        ),
    }),
  }
}
