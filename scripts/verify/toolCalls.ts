/**
 * Renders conversations with calls of tools by public chat templates, and reads the calls back:
 * `npm run verify -- toolCalls FOLDER...`, where the folders hold `.jinja` files. `--write` writes
 * the turns to test/golden/toolCalls/turns.json.
 *
 * Prints a line for each template that writes calls. Exits with 1 if a template whose format is
 * known gives other calls back.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { type ChatTemplate, chatTemplate, type ToolCallFormat, toolCallFormatOf } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { NOW, TOKENS } from '../../test/kit/chatTemplates.js'
import { CONVERSATIONS, callsMade, callsRead, turnOf } from '../../test/kit/toolCalls.js'

interface Turn {
  readonly template: string
  readonly format: string
  readonly conversation: string
  readonly turn: string
}

const given = process.argv.slice(2)
const folders = given.filter((each) => !each.startsWith('--'))
const turns: Turn[] = []

/** The calls of a turn as text; what is wrong with them if they are no JSON. */
const readBack = (turn: string, format: ToolCallFormat): string => {
  try {
    return JSON.stringify(callsRead(turn, format))
  } catch (error) {
    return String(error)
  }
}

const verdict = (name: string, template: ChatTemplate, conversation: keyof typeof CONVERSATIONS): string => {
  const history = CONVERSATIONS[conversation]
  const format = toolCallFormatOf(template)
  if (format === 'none') return 'format not known'
  const turn = turnOf(template, history)
  if (E.isLeft(turn)) return `refused (${turn.left.reason.slice(0, 110)})`
  if (!turn.right.includes('look_up')) return 'writes no calls'
  if (readBack(turn.right, format) !== JSON.stringify(callsMade(history))) {
    process.exitCode = 1
    return `DIFFERENT: ${JSON.stringify(turn.right).slice(0, 300)}`
  }
  const isNew = turns.every((other) => other.format !== format || other.turn !== turn.right)
  if (isNew) turns.push({ template: name, format, conversation, turn: turn.right })
  return 'equal'
}

const check = (name: string, source: string): void => {
  const template = chatTemplate(source, TOKENS, { now: NOW })
  if (E.isLeft(template) || !source.includes('tool_calls')) return
  const verdicts = (['one call', 'two calls'] as const).map((each) => `${each}: ${verdict(name, template.right, each)}`)
  console.log(`${name.padEnd(34)} ${toolCallFormatOf({ source }).padEnd(16)} ${verdicts.join('; ')}`)
}

for (const folder of folders) {
  for (const file of readdirSync(folder).filter((each) => each.endsWith('.jinja'))) {
    check(basename(file, '.jinja'), readFileSync(join(folder, file), 'utf8'))
  }
}
if (given.includes('--write')) writeFileSync('test/golden/toolCalls/turns.json', `${JSON.stringify(turns, null, 1)}\n`)
