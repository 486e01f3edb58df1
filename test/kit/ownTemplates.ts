/**
 * The templates of `test/golden/chatTemplates`, their conversations, and what Python made of them.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { orThrow } from '@tandem-rl/base'
import { type ChatTemplate, chatTemplate } from '@tandem-rl/text'
import { type Case, type Reference, TOKENS } from './chatTemplates.js'

const FOLDER = 'test/golden/chatTemplates'

const read = (file: string): string => readFileSync(join(FOLDER, file), 'utf8')

/** Sources by name. */
export const ownTemplates: ReadonlyMap<string, string> = new Map(
  readdirSync(join(FOLDER, 'templates')).map((file) => [file.replace('.jinja', ''), read(join('templates', file))]),
)

export const reference = JSON.parse(read('transformers.json')) as Reference // written by the generator

export const casesOf = (): readonly Case[] => JSON.parse(read('conversations.json')) as readonly Case[] // read by the generator too

/** One of the templates, compiled. */
export const ownTemplate = (name: string): ChatTemplate => orThrow(chatTemplate(ownTemplates.get(name)!, TOKENS))
