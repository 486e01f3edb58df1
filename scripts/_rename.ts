import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import ts from 'typescript'

// usage: tsx rename.ts list.json  ; list: [[file, old, new], ...]
const list = JSON.parse(readFileSync(process.argv[2]!, 'utf8')) as [string, string, string][]
const { config } = ts.readConfigFile('tsconfig.json', ts.sys.readFile)
const parsed = ts.parseJsonConfigFileContent(config, ts.sys, process.cwd())
const texts = new Map<string, { text: string; version: number }>()
const get = (f: string) => {
  let e = texts.get(f)
  if (!e) {
    const t = ts.sys.readFile(f)
    if (t === undefined) return undefined
    e = { text: t, version: 0 }
    texts.set(f, e)
  }
  return e
}
const host: ts.LanguageServiceHost = {
  getCompilationSettings: () => parsed.options,
  getScriptFileNames: () => parsed.fileNames,
  getScriptVersion: (f) => String(get(f)?.version ?? 0),
  getScriptSnapshot: (f) => {
    const e = get(f)
    return e && ts.ScriptSnapshot.fromString(e.text)
  },
  getCurrentDirectory: () => process.cwd(),
  getDefaultLibFileName: ts.getDefaultLibFilePath,
  fileExists: ts.sys.fileExists,
  readFile: ts.sys.readFile,
  readDirectory: ts.sys.readDirectory,
  directoryExists: ts.sys.directoryExists,
  getDirectories: ts.sys.getDirectories,
}
const ls = ts.createLanguageService(host)
const changed = new Set<string>()
for (const [file, old, nw] of list) {
  const path = resolve(file)
  const sf = ls.getProgram()!.getSourceFile(path)
  if (!sf) {
    console.log('no file', file)
    continue
  }
  let pos = -1
  for (const s of sf.statements) {
    if (ts.isVariableStatement(s))
      for (const d of s.declarationList.declarations) {
        if (ts.isIdentifier(d.name) && d.name.text === old) pos = d.name.getStart()
        else if (ts.isObjectBindingPattern(d.name))
          for (const e of d.name.elements) if (e.name.getText() === old) pos = e.name.getStart()
      }
    if (
      (ts.isInterfaceDeclaration(s) ||
        ts.isTypeAliasDeclaration(s) ||
        ts.isFunctionDeclaration(s) ||
        ts.isClassDeclaration(s)) &&
      s.name?.text === old &&
      pos < 0
    )
      pos = s.name.getStart()
    if (pos < 0 && old.includes('.') && ts.isInterfaceDeclaration(s) && s.name.text === old.split('.')[0])
      for (const m of s.members) if (m.name!.getText() === old.split('.')[1]) pos = m.name!.getStart()
  }
  if (pos < 0) {
    console.log('not found', file, old)
    continue
  }
  const locs = ls.findRenameLocations(path, pos, false, false, { providePrefixAndSuffixTextForRename: true })
  if (!locs) {
    console.log('cannot rename', file, old)
    continue
  }
  const by = new Map<string, ts.RenameLocation[]>()
  for (const l of locs) {
    if (!by.has(l.fileName)) by.set(l.fileName, [])
    by.get(l.fileName)!.push(l)
  }
  let n = 0
  for (const [f, ls2] of by) {
    if (f.includes('node_modules')) continue
    const e = get(f)!
    let t = e.text
    for (const l of ls2.sort((a, b) => b.textSpan.start - a.textSpan.start)) {
      // imports `{ old }` become `{ new }`, not `{ new as old }`: prefix and suffix only for object shorthands and destructurings
      const around = t.slice(0, l.textSpan.start)
      const stmt = around.slice(
        Math.max(
          around.lastIndexOf('\nimport '),
          around.lastIndexOf('\nexport {'),
          around.startsWith('import') || around.startsWith('export {') ? 0 : -1,
        ),
      )
      const inModuleList = /^\n?(import|export)\s+(type\s+)?(\w+,\s*)?\{[^}]*$/.test(stmt)
      const pre = inModuleList ? '' : (l.prefixText ?? ''),
        suf = inModuleList ? '' : (l.suffixText ?? '')
      t =
        t.slice(0, l.textSpan.start) + pre + nw.split('.').at(-1) + suf + t.slice(l.textSpan.start + l.textSpan.length)
      n++
    }
    e.text = t
    e.version++
    changed.add(f)
  }
  console.log(old, '->', nw, n)
}
for (const f of changed) writeFileSync(f, texts.get(f)!.text)
