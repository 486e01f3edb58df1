/** The modules of the page as one script, which a page can hold inline. */

/** Files by name. */
type Modules = Readonly<Record<string, string>>

const IMPORT = /^import (?:\{([\w\s,]*)\}|(\w+)) from '\.\/([\w.]+)'$/gm
const EXPORTED = /^export (?=const (\w+))/gm
const DEFAULT = /^export \{ (\w+) as default \};?$/gm
const OTHER = /^(?:import|export)\b.*$/m

/** Removes the comments that begin a line. */
const withoutComments = (text: string): string => {
  const [before = '', ...after] = `\n${text}`.split('\n/*')
  return before + after.map((part) => `\n${part.slice(part.indexOf('*/') + 2)}`).join('')
}

const importedBy = (text: string): readonly string[] => [...text.matchAll(IMPORT)].map(([, , , name]) => name!)

/** Returns the modules that a module needs, each after those that it imports itself. */
const ordered = (modules: Modules, entry: string): readonly string[] => {
  const done = new Set<string>()
  const open: string[] = []
  const visit = (name: string): void => {
    if (done.has(name)) return
    if (open.includes(name)) throw new RangeError(`modules: ${[...open, name].join(' imports ')}`)
    const text = modules[name]
    if (text === undefined) throw new RangeError(`modules: expected a file '${name}' of the page, got none`)
    open.push(name)
    importedBy(text).forEach(visit)
    open.pop()
    done.add(name)
  }
  visit(entry)
  return [...done]
}

/** Turns a module into a call that returns its exports. */
const asCall = (name: string, given: string): string => {
  const text = withoutComments(given)
  const exported = [...text.matchAll(EXPORTED)].map(([, own]) => own!)
  const byDefault = [...text.matchAll(DEFAULT)].map(([, own]) => `default: ${own}`)
  const body = text
    .replaceAll(IMPORT, (_, names: string | undefined, own: string, from: string) =>
      names === undefined
        ? `const { default: ${own} } = modules['${from}']`
        : `const {${names.replaceAll(' as ', ': ')}} = modules['${from}']`,
    )
    .replaceAll(DEFAULT, '')
    .replaceAll(EXPORTED, '')
  const unread = OTHER.exec(body)
  if (unread !== null) throw new RangeError(`${name}: cannot join '${unread[0]}'`)
  return `modules['${name}'] = (() => {\n${body}\nreturn { ${[...exported, ...byDefault].join(', ')} }\n})()\n`
}

/**
 * Joins a module and all that it imports into one script without imports.
 *
 * Errors   throws RangeError for a missing module, modules that import each other, and forms of
 *          imports and exports other than `{ names } from './file.js'` and `export const`.
 */
export const oneScript = (modules: Modules, entry: string): string => {
  const calls = ordered(modules, entry).map((name) => asCall(name, modules[name]!)) // ordered checks it
  const script = `'use strict'\nconst modules = {}\n${calls.join('')}`
  return script.replaceAll(/<(?=!--|\/?script)/gi, '\\x3c')
}
