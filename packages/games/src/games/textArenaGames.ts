/**
 * The games of TextArena that have the same rules here. The sentences that players read, and the
 * reasons of refusals, are those of TextArena 0.7.4 (MIT license, LICENSES/MIT-TextArena.txt).
 */
import * as E from 'fp-ts/lib/Either.js'
import { boardRows } from './boards.js'
import { type ConnectFourOptions, type ConnectFourPosition, connectFour } from './connectFour.js'
import { type KuhnPokerPosition, kuhnPoker } from './kuhnPoker.js'
import { type NimPosition, nim } from './nim.js'
import { type PigPosition, pig } from './pig.js'
import { marksOf, type SecretPosition, WORDS, wordGuess } from './secretGames.js'
import {
  action,
  board,
  GameBoardObservationWrapper,
  GameMessagesAndCurrentBoardObservationWrapper,
  GameMessagesObservationWrapper,
  refusalOf,
  reported,
  type Step,
  type TextArenaRules,
} from './textArenaNotes.js'
import { type TicTacToePosition, ticTacToe } from './ticTacToe.js'

const same = (seat: number): number => seat

const ofPlayer = (player: number, reason: string) => refusalOf(`Player ${player}`, reason)

const numbers = (count: number): readonly number[] => Array.from({ length: count }, (_, i) => i)

/** Returns the first match of a pattern. */
const firstMatch = (pattern: RegExp, text: string): readonly string[] | undefined => pattern.exec(text) ?? undefined

const SQUARE = /\[\s*(\d+)\s*\]/

const noughts = (): TextArenaRules<TicTacToePosition> => {
  const mark = (cell: string): string => (cell === 'x' ? 'O' : 'X')
  const symbol = (player: number): string => mark(player === 0 ? 'x' : 'o')
  const boardNote = ({ cells }: TicTacToePosition) => {
    const shown = [...cells].map((cell, at) => ` ${cell === '.' ? at : mark(cell)} `)
    const rows = numbers(3).map((row) => shown.slice(3 * row, 3 * row + 3).join('|'))
    const free = [...cells].flatMap((cell, at) => (cell === '.' ? [`'[${at}]'`] : []))
    return board(`Current Board:\n\n${rows.join('\n---+---+---\n')}\n\nAvailable Moves: ${free.join(', ')}`)
  }
  return {
    game: ticTacToe,
    numberOf: same,
    train: GameMessagesAndCurrentBoardObservationWrapper,
    prompt: (player) =>
      `You are Player ${player} in Tic Tac Toe.\n` +
      'Your goal is to win three in a row (horizontally, vertically, or diagonally) on the board.\n' +
      'On your turn, you should select the square number (0-8) you want to put your mark in next.\n' +
      "For example, '[4]' places your mark in the center cell of the board.\n\n" +
      `As Player ${player}, you will be '${symbol(player)}', while your opponent is '${symbol(1 - player)}'.\n`,
    opening: (position) => [boardNote(position)],
    after: ({ actor, action: cell, after }) => [
      action(Number(actor), `[${cell}]`),
      reported(`Player ${actor} placed their symbol (${symbol(Number(actor))}) in cell ${cell}.`),
      boardNote(after),
    ],
    refused: (position, { player, reason }) => [ofPlayer(player, reason), boardNote(position)],
    read: ({ cells }, { reply }) => {
      const cell = firstMatch(SQUARE, reply)?.[1]
      if (cell === undefined) return E.left('The submitted move does not follow the correct format.')
      if (Number(cell) > 8) return E.left(`${Number(cell)}. Must be between 0 and 8.`)
      return cells[Number(cell)] === '.' ? E.right(Number(cell)) : E.left(`cell ${Number(cell)} is already occupied.`)
    },
  }
}

const COLUMN = /\[(?:col\s*)?(\d+)\]/gi

const fourInARow = (
  options: Required<Pick<ConnectFourOptions, 'rows' | 'columns'>>,
): TextArenaRules<ConnectFourPosition> => {
  const { rows, columns } = options
  const game = connectFour(options)
  const boardNote = ({ cells }: ConnectFourPosition) => {
    const lines = boardRows(cells.toUpperCase(), columns).map((row) => [...row].join(' '))
    return board(['Board state:', numbers(columns).join(' '), '-'.repeat(2 * columns - 1), ...lines].join('\n'))
  }
  const symbol = (player: number): string => (player === 0 ? 'X' : 'O')
  return {
    game,
    numberOf: same,
    train: GameMessagesAndCurrentBoardObservationWrapper,
    prompt: (player) =>
      `You are Player ${player} in Connect Four.\nYour disc symbol: ${symbol(player)}.\n` +
      `The game board has ${rows} rows and ${columns} columns.\n` +
      `Players take turns dropping their disc into one of the columns (0 to ${columns - 1}).\n` +
      'The first to connect (their own) four discs vertically, horizontally, or diagonally wins.\n' +
      "On your turn, enter the column number in squared brackets to make your move.\nFor example: '[col 4]' or '[col 1]'.",
    opening: (position) => [boardNote(position)],
    after: ({ actor, action: column, after }) => [
      action(Number(actor), `[col ${column}]`),
      reported(`Player ${actor} dropped their disk (${symbol(Number(actor))}) into column ${column}.`),
      boardNote(after),
    ],
    refused: (_position, { player, reason }) => [ofPlayer(player, reason)],
    read: ({ cells }, { player, reply }) => {
      const found = reply.split('\n').map((line) => [...line.matchAll(COLUMN)].at(-1)?.[1])
      const column = Number(found.find((each) => each !== undefined) ?? Number.NaN)
      if (Number.isNaN(column)) return E.left(`Player ${player}, Invalid action format. Expected format: '[col x]'.`)
      if (column >= columns) return E.left(`Player ${player}, Invalid action. Column ${column} is out of bounds.`)
      return cells[column] === '.'
        ? E.right(column)
        : E.left(`Player ${player}, Invalid action. Column ${column} is full.`)
    },
  }
}

const PILE = /\[\s*(\d+)\s+(\d+)\s*\]/

const piles = (sizes: readonly number[]): TextArenaRules<NimPosition> => {
  const boardNote = ({ piles: left }: NimPosition) =>
    board(['Current Pile:', ...left.map((size, pile) => `  pile ${pile}: ${size}`)].join('\n'))
  return {
    game: nim({ piles: sizes, last: 'wins' }),
    numberOf: same,
    train: GameMessagesAndCurrentBoardObservationWrapper,
    prompt: (player) =>
      `Welcome to Nim, Player ${player}!\nRules:\n- On your turn, remove at least one object from exactly one pile.\n` +
      "- Remove objects with the format '[pile quantity]', e.g. '[0 3]'.\n- Whoever takes the last object(s) wins!",
    opening: (position) => [boardNote(position)],
    after: ({ actor, action: move, after }) => {
      const [pile, take] = [move % sizes.length, Math.floor(move / sizes.length) + 1]
      return [
        action(Number(actor), `[${pile} ${take}]`),
        reported(`Player ${actor} removes ${take} from pile ${pile}.`),
        boardNote(after),
      ]
    },
    refused: (position, { player, reason }) => [ofPlayer(player, reason), boardNote(position)],
    read: ({ piles: left }, { reply }) => {
      const found = firstMatch(PILE, reply)
      if (found === undefined) return E.left("No valid move format found. Use '[pile quantity]'.")
      const [pile = 0, take = 0] = found.slice(1).map(Number)
      const size = left[pile]
      if (size === undefined) return E.left(`Pile index ${pile} is out of range.`)
      if (take === 0) return E.left('Must remove at least 1 object.')
      return take <= size
        ? E.right((take - 1) * left.length + pile)
        : E.left(`Cannot remove ${take} from pile ${pile} (only ${size} left).`)
    },
  }
}

const CALL = /\[(check|bet|fold|call)\]/i

/** One hand. TextArena's player 1 begins. */
const poker = (): TextArenaRules<KuhnPokerPosition> => {
  const game = kuhnPoker()
  const numberOf = (seat: number): number => 1 - seat
  const choices = ({ bets }: KuhnPokerPosition): readonly string[] =>
    bets.includes(1) ? ['fold', 'call'] : ['check', 'bet']
  const available = (position: KuhnPokerPosition) =>
    board(
      `Your available actions are: ${choices(position)
        .map((each) => `'[${each}]'`)
        .join(', ')}`,
    )
  return {
    game,
    numberOf,
    train: GameMessagesAndCurrentBoardObservationWrapper,
    prompt: (player) =>
      `You are Player ${player} in a 1 round game of Kuhn Poker.\nGame Rules:\n` +
      '- Kuhn Poker uses a 3-card deck with J, Q, K (J lowest, K highest)\n' +
      '- Each player antes 1 chip and receives 1 card each round ' +
      '(note that the cards are dealt without replacement, so you cannot have the same card as your opponent).\n' +
      '- Game continues for 1 rounds\n- The player with the most chips after all rounds wins\n\nAction Rules:\n' +
      "- '[check]': Pass without betting (only if no bet is on the table)\n" +
      "- '[bet]': Add 1 chip to the pot (only if no bet is on the table)\n" +
      "- '[call]': Match an opponent's bet by adding 1 chip to the pot\n" +
      "- '[fold]': Surrender your hand and let your opponent win the pot\n",
    opening: (position, player) => {
      const card = 'JQK'[position.cards[numberOf(player)]!]
      const text = `### Starting round 1 out of 1 rounds. Your card is: '${card}'`
      return [reported(text), player === numberOf(0) ? available(position) : board(text)]
    },
    after: ({ before, actor, action: move, after }, player) => {
      const mover = numberOf(Number(actor))
      const name = choices(before)[move]
      const isNext = player !== mover && game.turn({ position: after, history: [] }) !== 'over'
      return [
        action(mover, `[${name}]`),
        reported(`Player ${mover}, submitted move: '[${name}]'.`),
        ...(isNext ? [available(after)] : []),
      ]
    },
    refused: (_position, { player, reason }) => [ofPlayer(player, reason)],
    read: (position, { reply }) => {
      const move = firstMatch(CALL, reply)?.[1]?.toLowerCase()
      if (move === undefined) return E.left('Action must be [Check], [Bet], [Call], or [Fold].')
      const legal = choices(position)
      const at = legal.indexOf(move)
      return at === -1 ? E.left(`Action must be ${legal.map((each) => `[${each}]`).join(', ')}.`) : E.right(at)
    },
  }
}

const ROLL = /\[(roll|hold)\]/i

/** The rolls of the turn in progress, after the last move. */
const rollsOf = (moves: readonly Step<PigPosition>[]): readonly number[] => {
  const isEnd = ({ actor, action: move }: Step<PigPosition>): boolean => move === (actor === 'chance' ? 0 : 1)
  return moves
    .slice(moves.findLastIndex(isEnd) + 1)
    .flatMap(({ actor, action: move }) => (actor === 'chance' ? [move + 1] : []))
}

const dice = (winScore: number): TextArenaRules<PigPosition> => {
  const scoresOf = ({ scores }: PigPosition): string => scores.map((score, i) => `Player ${i}: '${score}'`).join('; ')
  const boardNote = (position: PigPosition, rolls: readonly number[]) =>
    board(
      `Current Total Scores: ${scoresOf(position)}\nYou current turn total is ${position.turnTotal}. \n` +
        (rolls.length === 0
          ? 'This is the first roll of your turn.'
          : `Your roll history for this turn: ${rolls.map((roll) => `'${roll}'`).join(', ')}`) +
        "\nAvailable actions: '[roll]' or '[hold]'",
    )
  const passed = (after: PigPosition) => [reported(`Current Scores: ${scoresOf(after)}`), boardNote(after, [])]
  return {
    game: pig({ winScore }),
    numberOf: same,
    train: GameBoardObservationWrapper,
    prompt: (player) =>
      `You are Player ${player} playing a game of Pig Dice.\n` +
      "Rules:\n- On your turn, you can either '[roll]' or '[hold]'\n- Roll a 2-6: Add to your turn total\n" +
      '- Roll a 1: Lose turn total and end turn\n- Hold: Add turn total to your score and end turn\n' +
      `- First to ${winScore} points wins\n\nWhen it's your turn, you'll see the current scores and turn total.\n` +
      "Respond with '[roll]' to roll the die or '[hold]' to bank your points.",
    opening: (position) => [boardNote(position, [])],
    after: ({ before, actor, action: move, after }, _player, moves) => {
      if (actor !== 'chance') {
        const name = move === 0 ? '[roll]' : '[hold]'
        const banked = reported(`Player ${actor} holds and banks ${before.turnTotal} points.`)
        return [action(actor, name), ...(move === 0 ? [] : [banked, ...passed(after)])]
      }
      if (move !== 0) return [boardNote(after, rollsOf(moves))]
      return [reported(`Player ${before.player} busted, losing ${before.turnTotal} points!`), ...passed(after)]
    },
    refused: (_position, { player, reason }) => [ofPlayer(player, reason)],
    read: ({ scores, turnTotal }, { player, reply }) => {
      const move = firstMatch(ROLL, reply)?.[1]?.toLowerCase()
      if (move === undefined) return E.left("Invalid action format. Use '[roll]' or '[hold]'.")
      if (move === 'hold') return E.right(1)
      return scores[player]! + turnTotal >= winScore ? E.left('Your points are enough to win: hold.') : E.right(0)
    },
  }
}

const WORD = /\[(\w+)\]/

const secretWord = (words: readonly string[]): TextArenaRules<SecretPosition> => {
  const guesses = 6
  const length = words[0]!.length
  const spaced = (text: string): string => [...text].join(' ')
  return {
    game: wordGuess({ words, guesses }),
    numberOf: same,
    train: GameMessagesObservationWrapper,
    prompt: () =>
      `You are Playing Wordle.\nA secret ${length}-letter word has been chosen. You have ${guesses} attempts to guess it.\n` +
      "For each guess, wrap your word in square brackets (e.g., '[apple]').\nFeedback for each letter will be given as follows:\n" +
      '  - G (green): correct letter in the correct position\n' +
      '  - Y (yellow): letter exists in the word but in the wrong position\n' +
      '  - X (wrong): letter is not in the word\nEnter your guess to begin.\n',
    opening: () => [],
    after: ({ action: guess, after: { secret, moves } }) => {
      const [word, marks] = [words[guess]!, marksOf(words[secret!]!, words[guess]!)]
      const submitted = `[${word.toLowerCase()}]`
      return [
        { kind: 'action', text: submitted },
        reported(
          `You submitted ${submitted}.\nFeedback:\n${spaced(word)}\n${spaced(marks)}\nYou have ${guesses - moves.length} guesses left.`,
        ),
      ]
    },
    refused: (_position, { reason }) => [refusalOf('You', reason)],
    read: ({ moves }, { reply }) => {
      const word = firstMatch(WORD, reply)?.[1]?.toLowerCase()
      if (word === undefined)
        return E.left('You tried submitting a word in the wrong format. Please make sure to use squared brackets.')
      if (word.length !== length) return E.left(`Your word must be exactly ${length} letters.`)
      const guess = words.indexOf(word.toUpperCase())
      if (moves.includes(guess))
        return E.left(`You have already guessed '${word}' before. Please try a different word.`)
      return guess === -1 ? E.left(`'${word}' is not an English word.`) : E.right(guess)
    },
  }
}

type AnyRules = TextArenaRules<unknown>

/** Hides the type of positions. The functions only get positions of their own game. */
const anyRules = <P>(rules: TextArenaRules<P>): AnyRules => rules as unknown as AnyRules // as said above

/** The games by TextArena's names, with the options of its registry. */
export const TEXT_ARENA_GAMES: Readonly<Record<string, (words: readonly string[] | undefined) => AnyRules>> = {
  'TicTacToe-v0': () => anyRules(noughts()),
  'ConnectFour-v0': () => anyRules(fourInARow({ rows: 6, columns: 7 })),
  'ConnectFour-v0-large': () => anyRules(fourInARow({ rows: 12, columns: 15 })),
  'Nim-v0': () => anyRules(piles([3, 4, 5])),
  'Nim-v0-medium': () => anyRules(piles([4, 2, 3, 7])),
  'Nim-v0-large': () => anyRules(piles([5, 7, 9, 11, 2])),
  KuhnPoker: () => anyRules(poker()),
  'PigDice-v0': () => anyRules(dice(100)),
  'PigDice-v0-short': () => anyRules(dice(50)),
  'PigDice-v0-long': () => anyRules(dice(500)),
  'Wordle-v0': (words = WORDS) => anyRules(secretWord(words)),
}
