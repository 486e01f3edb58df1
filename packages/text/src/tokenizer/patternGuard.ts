/**
 * Bounds the time of the expressions of a tokenizer file. `RegExp` backtracks, so a hostile
 * expression can take exponential time.
 *
 * Expressions whose time may grow faster than the square of the text are refused when the file is
 * read. Where it may grow with the square, `guardOf` returns the character classes whose long runs
 * make it slow: `guardedMatches` charges them to the budget.
 */
import { type PatternNode, parsePattern } from './patternTree.js'

/** Repetitions from which on a count is treated as unbounded. */
const MANY = 32

/** Repetitions of a part that can match in several ways. */
const FEW = 3

/** Ways in which bounded parts may match at one place. */
const MOST_WAYS = 2 ** 12

/** Alternatives of the whole expression: each of them may be tried at each place. */
const MOST_ALTERNATIVES = 2 ** 10

/** Nodes of the expression after its counted repetitions are written out. */
const MOST_NODES = 2 ** 14

/** A class whose characters are read again and again without being consumed. */
export interface Rescan {
  /** The sources of the characters that the repetition may read. */
  readonly characters: readonly string[]
  /**
   * The repetition begins at most this many UTF-16 units behind the place where a match is tried.
   */
  readonly offset: number
}

/** A bound of the time of one attempt to match: `ways` times one plus the longest of the runs. */
export interface Guard {
  readonly ways: number
  readonly rescans: readonly Rescan[]
}

interface Cost {
  readonly ways: number
  /** Nested or consecutive repetitions that backtracking multiplies. */
  readonly degree: number
  readonly rescans: readonly Rescan[]
}

const FREE: Cost = { ways: 1, degree: 0, rescans: [] }

const isEndless = (count: number): boolean => count >= MANY

const childrenOf = (node: PatternNode): readonly PatternNode[] => {
  if (node.kind === 'choice') return node.options
  if (node.kind === 'sequence') return node.parts
  return node.kind === 'look' || node.kind === 'repeat' ? [node.body] : []
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0)

/** Nodes with counted repetitions written out. */
const sizeOf = (node: PatternNode): number => {
  const inside = 1 + sum(childrenOf(node).map(sizeOf))
  return node.kind === 'repeat' ? inside * Math.max(1, Number.isFinite(node.most) ? node.most : node.least) : inside
}

const alternativesOf = (node: PatternNode): number =>
  (node.kind === 'choice' ? node.options.length : 0) + sum(childrenOf(node).map(alternativesOf))

/** The most UTF-16 units that a part consumes. */
const widthOf = (node: PatternNode): number => {
  switch (node.kind) {
    case 'character':
      return 2
    case 'edge':
    case 'look':
      return 0
    case 'backreference':
      return Number.POSITIVE_INFINITY
    case 'choice':
      return Math.max(0, ...node.options.map(widthOf))
    case 'sequence':
      return sum(node.parts.map(widthOf))
    case 'repeat':
      return node.most === 0 ? 0 : node.most * widthOf(node.body)
  }
}

const charactersOf = (node: PatternNode): readonly string[] => {
  if (node.kind === 'character') return [node.source]
  return node.kind === 'look' ? [] : childrenOf(node).flatMap(charactersOf)
}

/** Returns `true` if a part can match in several ways. */
const hasChoice = (node: PatternNode): boolean =>
  node.kind === 'choice' || (node.kind === 'repeat' && node.least !== node.most) || childrenOf(node).some(hasChoice)

/** Returns `true` if a part can fail to match. */
const canFail = (node: PatternNode): boolean => {
  switch (node.kind) {
    case 'choice':
      return node.options.every(canFail)
    case 'sequence':
      return node.parts.some(canFail)
    case 'repeat':
      return node.least > 0 && canFail(node.body)
    default:
      return true
  }
}

/**
 * The place of a part: its offset from the start of the attempt, and if its successors can fail.
 */
interface Place {
  readonly offset: number
  readonly next: 'can fail' | 'succeeds'
}

const refused = (reason: string): never => {
  throw new SyntaxError(reason)
}

const costOfRepeat = (node: Extract<PatternNode, { readonly kind: 'repeat' }>, place: Place): Cost => {
  const { body, least, most } = node
  if (hasChoice(body) && most > FEW) return refused('may take exponential time')
  const isVariable = least !== most
  const inner = costOf(body, most > 1 || isVariable ? { ...place, next: 'can fail' } : place)
  if (isEndless(most)) {
    const isRead = place.next === 'can fail' || !isVariable || isEndless(least)
    const rescans = [{ characters: charactersOf(body), offset: place.offset }]
    return { ways: sizeOf(body), degree: inner.degree + (isRead ? 1 : 0), rescans: isRead ? rescans : inner.rescans }
  }
  const choices = isVariable && place.next === 'can fail' ? most - least + 1 : 1
  return { ways: choices * inner.ways ** most, degree: inner.degree * most, rescans: inner.rescans }
}

const costOfSequence = (parts: readonly PatternNode[], { offset, next }: Place): Cost => {
  let at = offset
  return parts.reduce<Cost>((total, part, i) => {
    const follows = next === 'can fail' || parts.slice(i + 1).some(canFail) ? 'can fail' : 'succeeds'
    const cost = costOf(part, { offset: at, next: follows })
    at += widthOf(part)
    return {
      ways: total.ways * cost.ways,
      degree: total.degree + cost.degree,
      rescans: [...total.rescans, ...cost.rescans],
    }
  }, FREE)
}

const costOf = (node: PatternNode, place: Place): Cost => {
  switch (node.kind) {
    case 'character':
    case 'edge':
      return FREE
    case 'backreference':
      return refused('has a backreference, which is not supported')
    case 'look':
      if (node.direction === 'behind' && !(widthOf(node.body) < 2 * MANY)) {
        return refused(`looks back over ${MANY} characters or more, which is not supported`)
      }
      return costOf(node.body, { ...place, next: 'can fail' })
    case 'choice': {
      const costs = node.options.map((option) => costOf(option, place))
      const ways = costs.map((cost) => cost.ways)
      return {
        ways: place.next === 'can fail' ? sum(ways) : Math.max(...ways),
        degree: Math.max(...costs.map(({ degree }) => degree)),
        rescans: costs.flatMap(({ rescans }) => rescans),
      }
    }
    case 'sequence':
      return costOfSequence(node.parts, place)
    case 'repeat':
      return costOfRepeat(node, place)
  }
}

/**
 * Bounds the time of an expression.
 *
 * Errors   throws SyntaxError for expressions whose time may be exponential, or may grow faster
 *          than the square of the text.
 * Cost     O(length²), for a length of at most 2^14.
 */
export const guardOf = (source: string): Guard => {
  if (source.length > MOST_NODES) return refused(`is longer than ${MOST_NODES} characters`)
  const tree = parsePattern(source)
  if (sizeOf(tree) > MOST_NODES || alternativesOf(tree) > MOST_ALTERNATIVES) {
    return refused(`has more than ${MOST_NODES} parts or ${MOST_ALTERNATIVES} alternatives`)
  }
  const { ways, degree, rescans } = costOf(tree, { offset: 0, next: 'succeeds' })
  if (degree > 1) return refused('may take time that grows faster than the square of the text')
  if (ways > MOST_WAYS) return refused(`may match in more than ${MOST_WAYS} ways at one place`)
  return { ways, rescans }
}
