/** The kinds of reasons that players write for their moves, by their words. */
import { meanOf } from '@tandem-rl/base'
import type { GameRecord } from '../matches/records.js'
import { groupBy } from './outcomes.js'

/**
 * The words of each kind, as beginnings of words. They are counted in order; of kinds with equally
 * many, the first one counts.
 */
const WORDS = {
  winning: ['win', 'victor', 'checkmate', 'three in a row', 'four in a row', 'complet', 'score'],
  blocking: ['block', 'prevent', 'stop', 'deny', 'defend', 'threat'],
  positional: ['center', 'centre', 'corner', 'edge', 'diagonal', 'row', 'column', 'position', 'square', 'board'],
  'opponent modeling': ['opponent', 'they will', 'they would', 'they might', 'expect', 'predict', 'bluff', 'guess'],
  risk: ['risk', 'safe', 'careful', 'cautio', 'gambl', 'lose', 'loss'],
  strategic: ['strateg', 'plan', 'future', 'later', 'long-term', 'next turn', 'set up', 'follow-up'],
  'rule-based': ['rule', 'legal', 'allowed', 'must', 'valid', 'only move', 'only option'],
  heuristic: ['usually', 'generally', 'typically', 'often', 'good move', 'strong move', 'standard', 'best choice'],
  cooperative: ['cooperat', 'together', 'mutual', 'fair', 'trust', 'agree', 'share'],
  competitive: ['aggress', 'attack', 'dominat', 'beat', 'exploit', 'punish', 'compet'],
  random: ['random', 'arbitrar', 'no reason', 'any move', 'does not matter', 'whatever'],
} as const

/** A kind of reasons; `none` for a text with no word of any kind. */
export type ReasoningKind = keyof typeof WORDS | 'none'

const PATTERNS = Object.entries(WORDS).map(
  ([kind, words]) => [kind as ReasoningKind, new RegExp(`\\b(?:${words.join('|')})`, 'gi')] as const, // its key
)

/** Returns the kind with the most words in a text. */
const kindOf = (text: string): ReasoningKind =>
  PATTERNS.reduce<{ readonly kind: ReasoningKind; readonly count: number }>(
    (best, [kind, pattern]) => {
      const count = text.match(pattern)?.length ?? 0
      return count > best.count ? { kind, count } : best
    },
    { kind: 'none', count: 0 },
  ).kind

/**
 * Computes the entropy of how often each kind occurs, in bits: `H = -sum p log2 p`.
 *
 * @example
 * kindEntropy(['risk', 'risk', 'none', 'none']) // 1
 */
export const kindEntropy = (kinds: readonly ReasoningKind[]): number =>
  [...groupBy(kinds, (kind) => kind).values()].reduce((sum, each) => {
    const share = each.length / kinds.length
    return sum - share * Math.log2(share)
  }, 0)

/** The reasons of a player. */
export interface ReasoningProfile {
  readonly player: string
  /** The number of moves with a reason. */
  readonly moves: number
  /** The number of moves of each kind that occurs, most frequent first. */
  readonly kinds: readonly (readonly [kind: ReasoningKind, count: number])[]
  /** Entropy of the kinds in bits. */
  readonly entropy: number
  /** The same of the moves that are the n-th of their player in a game, counted from 0. */
  readonly entropyByTurn: readonly { readonly turn: number; readonly entropy: number }[]
  /** Mean length of a reason in characters. */
  readonly meanLength: number
  /** Share of the reasons that mention the opponent. */
  readonly opponentShare: number
}

interface Reason {
  readonly player: string
  /** Counts the moves of the player in the game, from 0. */
  readonly turn: number
  readonly text: string
}

const reasonsOf = ({ seats, moves }: GameRecord): readonly Reason[] => {
  const turns = seats.map(() => 0)
  return moves.flatMap(({ player, reasoning }) => {
    const turn = turns[player]!++
    return reasoning === undefined || reasoning.trim() === '' ? [] : [{ player: seats[player]!, turn, text: reasoning }]
  })
}

/**
 * Describes the reasons that each player wrote for its moves. Kinds are found by keywords: they
 * describe words, not what led to a move. Players without reasons are left out.
 *
 * Cost     linear in the length of the reasons.
 */
export const reasoningProfiles = (games: readonly GameRecord[]): readonly ReasoningProfile[] =>
  [...groupBy(games.flatMap(reasonsOf), ({ player }) => player)].map(([player, reasons]) => {
    const labelled = reasons.map((reason) => ({ ...reason, kind: kindOf(reason.text) }))
    const kinds = [...groupBy(labelled, ({ kind }) => kind).values()].map(
      (each) => [each[0]!.kind, each.length] as const,
    )
    const turns = [...groupBy(labelled, ({ turn }) => String(turn))]
    return {
      player,
      moves: reasons.length,
      kinds: kinds.toSorted(([, a], [, b]) => b - a),
      entropy: kindEntropy(labelled.map(({ kind }) => kind)),
      entropyByTurn: turns
        .map(([turn, each]) => ({ turn: Number(turn), entropy: kindEntropy(each.map(({ kind }) => kind)) }))
        .toSorted((a, b) => a.turn - b.turn),
      meanLength: meanOf(reasons.map(({ text }) => text.length)),
      opponentShare: reasons.filter(({ text }) => /\bopponent/i.test(text)).length / reasons.length,
    }
  })
