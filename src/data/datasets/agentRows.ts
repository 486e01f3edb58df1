/** Rows for agents: AgentFly's JSON list, and conversations in OpenAI's format. */
import { historyFromOpenAi, type Message, type Task, textOf } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { RowTask } from '../task.js'
import type { DatasetFormat, PlainRow } from './rows.js'

/** A task with a whole conversation instead of only a question. */
export interface AgentTask extends Task {
  /** The conversation up to the agent's first reply. Default: `query` as a user's message. */
  readonly messages?: readonly Message[]
}

/** A task with its row: rewards and tools read its fields by name. */
export type AgentRowTask<Row = PlainRow> = AgentTask & RowTask<Row>

/** The columns that may hold the question. The first one that a row has is used. */
const QUESTIONS = ['prompt', 'question', 'instruction', 'problem', 'query'] as const

/** The columns with images. */
const IMAGES = ['image', 'images'] as const

const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value)

const isRow = (value: unknown): value is PlainRow => typeof value === 'object' && value !== null && !isList(value)

const imagePart = (image: string): object => {
  const url = /^(?:https?|data|file):/.test(image) ? image : `data:image/png;base64,${image}`
  return { type: 'image_url', image_url: { url } }
}

/**
 * Converts a message in OpenAI's format. AgentFly's image parts, `{ type: 'image', image }`, become
 * OpenAI's.
 */
const plainMessage = (each: unknown): unknown =>
  isRow(each) && isList(each.content)
    ? {
        ...each,
        content: each.content.map((part) =>
          isRow(part) && part.type === 'image' && typeof part.image === 'string' ? imagePart(part.image) : part,
        ),
      }
    : each

/** Returns the images of a row, or the column with another type. */
const imagesOf = (row: PlainRow): E.Either<string, readonly string[]> => {
  const all = IMAGES.flatMap((column) => {
    const value = row[column]
    return value === undefined || value === null
      ? []
      : (isList(value) ? value : [value]).map((image) => ({ column, image }))
  })
  const wrong = all.find(({ image }) => typeof image !== 'string')
  return wrong === undefined
    ? E.right(all.map(({ image }) => String(image)))
    : E.left(`${wrong.column} must be an address or base64, got ${typeof wrong.image}`)
}

/** Returns the messages of a row in OpenAI's format, or the problem with them. */
const rawMessages = (row: PlainRow): E.Either<string, readonly unknown[]> => {
  const { messages } = row
  if (messages !== undefined)
    return isList(messages) && messages.length > 0
      ? E.right(messages.map(plainMessage))
      : E.left('messages must be a list of messages')
  const column = QUESTIONS.find((name) => row[name] !== undefined && row[name] !== null)
  if (column === undefined) {
    const has = Object.keys(row).join(', ') || 'no column'
    return E.left(`expected messages or one of ${QUESTIONS.join(', ')}; the row has ${has}`)
  }
  const question = row[column]
  if (isList(question)) return E.right(question.map(plainMessage))
  if (typeof question !== 'string' || question.trim() === '')
    return E.left(`${column} must be a text that is not empty, got ${typeof question}`)
  return E.map((images: readonly string[]) => [
    { role: 'user', content: [{ type: 'text', text: question }, ...images.map(imagePart)] },
  ])(imagesOf(row))
}

const textOfColumn = (value: unknown): string =>
  value === undefined || value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value)

/**
 * Converts a row to a task: its `messages`, or its question as a user's message with its images.
 * The answer is a text; `row` keeps every column.
 *
 * Errors   `Left` with the reason if the row has no conversation.
 *
 * @example
 * agentTask({ question: 'What is 1 + 1?', answer: 2 }, 'sums-0') // right({ id: 'sums-0', query: 'What is 1 + 1?', answer: '2', messages: [message('user', 'What is 1 + 1?')], row: { question: 'What is 1 + 1?', answer: 2 } })
 */
export const agentTask = (row: unknown, id: string): E.Either<string, AgentRowTask> => {
  if (!isRow(row)) return E.left('expected a record with messages or a question')
  const raw = rawMessages(row)
  if (E.isLeft(raw)) return raw
  const history = historyFromOpenAi(raw.right)
  if (E.isLeft(history)) return E.left(history.left.reason)
  const messages = history.right.messages.toArray()
  const questionText = messages.findLast(({ role }) => role === 'user')
  const query = questionText === undefined ? '' : textOf(questionText)
  return E.right({ id: textOfColumn(row.id) || id, query, answer: textOfColumn(row.answer), messages, row })
}

/**
 * The format of AgentFly's data sets: a JSON list of rows with a question (the first of `prompt`,
 * `question`, `instruction`, `problem`, `query`) or `messages`, images, and any other columns,
 * which rewards read by name.
 *
 * @example
 * AGENT_ROWS.schema.safeParse({ level: 3 }).success // false
 */
export const AGENT_ROWS: DatasetFormat<PlainRow, AgentRowTask> = {
  name: 'agentRows',
  schema: z.record(z.string(), z.unknown()).check((context) => {
    const task = agentTask(context.value, 'row')
    if (E.isLeft(task)) context.issues.push({ code: 'custom', message: task.left, input: context.value })
  }),
  task: (row, id) => {
    const task = agentTask(row, id)
    if (E.isLeft(task)) throw new RangeError(`agentRows: ${task.left}`) // the schema has refused such rows
    return task.right
  },
}
