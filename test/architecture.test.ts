/**
 * The budgets of CONTRIBUTING.md, checked on the syntax trees of all sources. The layers are
 * checked by dependency-cruiser.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { functionLengths, namesExportedTwice, optionFields, readSources, twoWayFolders } from '../scripts/kit/house.js'
import { isSource, SOURCE_FOLDERS } from '../scripts/kit/workspace.js'

const MAX_FILE_LINES = 400
const MAX_FUNCTION_LINES = 60
const MAX_PARAMETERS = 3

const sources = readSources([...SOURCE_FOLDERS, 'bench', 'scripts'])
const parsed = sources.map(({ tree }) => tree)

/** Every node of a tree that is of a kind. */
const nodesOf = <T extends ts.Node>(root: ts.Node, is: (node: ts.Node) => node is T): readonly T[] => {
  const found: T[] = []
  const visit = (node: ts.Node): void => {
    if (is(node)) found.push(node)
    ts.forEachChild(node, visit)
  }
  visit(root)
  return found
}

const lineOf = (file: ts.SourceFile, position: number): number => file.getLineAndCharacterOfPosition(position).line + 1

const place = (file: ts.SourceFile, node: ts.Node): string => `${file.fileName}:${lineOf(file, node.getStart())}`

const isImplementation = (node: ts.Node): node is ts.FunctionLikeDeclaration =>
  (ts.isFunctionDeclaration(node) || ts.isArrowFunction(node) || ts.isMethodDeclaration(node)) &&
  node.body !== undefined

const linesOf = (file: ts.SourceFile, node: ts.Node): number =>
  lineOf(file, node.getEnd()) - lineOf(file, node.getStart()) + 1

/**
 * A factory closes over its state: what counts for it are the statements that are not functions
 * themselves.
 */
const ownLines = (file: ts.SourceFile, node: ts.FunctionLikeDeclaration): number => {
  const inner = nodesOf(
    node.body!,
    (child): child is ts.FunctionLikeDeclaration => isImplementation(child) && child !== node,
  )
  const outermost = inner.filter(
    (child) => !inner.some((other) => other !== child && other.pos <= child.pos && child.end <= other.end),
  )
  return linesOf(file, node) - outermost.reduce((sum, child) => sum + linesOf(file, child), 0)
}

const parameterCount = (node: ts.FunctionLikeDeclaration): number =>
  node.parameters.filter((parameter) => parameter.dotDotDotToken === undefined).length

/** Returns true if a declaration, or the one that it initializes, is exported. */
const isExported = (node: ts.Node): boolean => {
  const statement = ts.isFunctionDeclaration(node)
    ? node
    : ts.isVariableDeclaration(node.parent)
      ? node.parent.parent.parent
      : undefined
  return (
    statement !== undefined &&
    (ts.getCombinedModifierFlags(statement as ts.Declaration) & ts.ModifierFlags.Export) !== 0
  )
}

const everywhere = (violations: (file: ts.SourceFile) => readonly string[]): readonly string[] =>
  parsed.flatMap(violations)

describe('every source file', () => {
  it(`has at most ${MAX_FILE_LINES} lines`, () => {
    expect(everywhere((file) => (lineOf(file, file.end) > MAX_FILE_LINES ? [file.fileName] : []))).toEqual([])
  })

  it('begins with a comment that says what it is, or has one above its main export', () => {
    const lacking = parsed.filter((file) => {
      const documented = file.statements.some((statement) => ts.getJSDocCommentsAndTags(statement).length > 0)
      return !documented && !file.text.trimStart().startsWith('/**') && !file.text.startsWith('#!')
    })
    expect(lacking.map((file) => file.fileName)).toEqual([])
  })
})

describe('names', () => {
  it('are exported by one file of src each', () => {
    expect([...namesExportedTwice(sources)]).toEqual([])
  })
})

describe('folders of sources', () => {
  it('import in one direction: if files of A import files of B, no file of B imports one of A', () => {
    expect(twoWayFolders(sources)).toEqual([])
  })

  const folders = [...new Set(sources.map(({ path }) => dirname(path)))].filter(
    (path) => isSource(`${path}/`) && !path.startsWith('src/doors'),
  )

  /** `text/jinja` for `packages/text/src/jinja`, and `data` for `src/data`. */
  const titleOf = (folder: string): string => folder.replace(/^packages\/([^/]+)\/src/, '$1').replace(/^src\//, '')

  /** The paragraph below the title of a folder's README.md, as one line. */
  const described = new Map(
    folders
      .filter((folder) => existsSync(join(folder, 'README.md')))
      .map((folder) => {
        const [title, ...lines] = readFileSync(join(folder, 'README.md'), 'utf8').trim().split('\n')
        return [folder, { title, text: lines.join(' ').trim() }] as const
      }),
  )

  it('are described in their README.md: what they hold, and what they do not', () => {
    const filesOf = (folder: string): number => sources.filter(({ path }) => dirname(path) === folder).length
    expect(
      folders.filter((folder) => !described.has(folder) && (filesOf(folder) > 1 || SOURCE_FOLDERS.includes(folder))),
    ).toEqual([])
    const wrong = [...described].filter(
      ([folder, { title, text }]) =>
        title !== `# ${titleOf(folder)}` || !/^This folder holds .+\. It does not hold .+\.$/.test(text),
    )
    expect(wrong).toEqual([])
    expect(described.size).toBeGreaterThan(60)
  })

  it('are described by naming files and folders that exist', () => {
    const named = [...described].flatMap(([folder, { text }]) =>
      [...text.split('It does not hold ')[1]!.matchAll(/`([^`]+)`/g)].map(([, path]) =>
        path!.startsWith('.') ? join(folder, path!) : path!,
      ),
    )
    expect(named.filter((path) => !existsSync(path))).toEqual([])
    expect(named.length).toBeGreaterThan(60)
  })
})

/** Functions with closures over 120 lines of code. They may only become shorter. */
const LONG_CLOSURES: Readonly<Record<string, number>> = {
  'src/modules/generation/scheduler.ts': 260,
  'packages/tfjs-onnxruntime/src/onnxruntime/backend.ts': 234,
  'packages/serve/src/capture/app.ts': 196,
}

/**
 * Records with more than 12 fields: each mirrors a file or a protocol, field by field, or is listed
 * with its count.
 */
const LARGE_RECORDS: Readonly<Record<string, number>> = {
  'packages/text/src/capture/records.ts': 15, // a sampling record in a journal of captured sessions
  'src/modules/lora/adapterConfig.ts': 15, // PEFT's adapter_config.json
  'packages/text/src/tokenizer/files.ts': 13, // tokenizer_config.json
  'packages/host/src/transport/settings.ts': 15,
  'packages/view/src/query.ts': 22, // the query of the viewer's list of rollouts
  'packages/serve/src/requests/responses.ts': 13, // a request of OpenAI's Responses API
}

describe('budgets with closures and schema fields', () => {
  it('no function is longer than 120 lines with its closures, or longer than it was', () => {
    const src = functionLengths(sources).filter(({ place }) => isSource(place))
    expect(src.filter(({ place, count }) => count > (LONG_CLOSURES[place.split(':')[0]!] ?? 120))).toEqual([])
  })

  it('no record of options or schema has more than 12 fields, or more than it had', () => {
    expect(
      optionFields(sources).filter(({ place, count }) => count > (LARGE_RECORDS[place.split(':')[0]!] ?? 12)),
    ).toEqual([])
  })
})

describe('every record', () => {
  it('has its fields in one list: no literal is spread into another to save lines', () => {
    const isGrouping = (node: ts.Node): node is ts.SpreadAssignment =>
      ts.isSpreadAssignment(node) && ts.isObjectLiteralExpression(node.expression)
    expect(
      everywhere((file) => (isSource(file.fileName) ? nodesOf(file, isGrouping).map((node) => place(file, node)) : [])),
    ).toEqual([])
  })
})

describe('every function', () => {
  it(`has at most ${MAX_FUNCTION_LINES} lines of its own`, () => {
    expect(
      everywhere((file) =>
        nodesOf(file, isImplementation)
          .filter((node) => ownLines(file, node) > MAX_FUNCTION_LINES)
          .map((node) => `${place(file, node)}: ${ownLines(file, node)}`),
      ),
    ).toEqual([])
  })

  it(`has at most ${MAX_PARAMETERS} parameters if others call it, one more if it is a helper of its own file`, () => {
    const foreign = ['packages/tfjs-onnxruntime/src/onnxruntime/', 'packages/tfjs-onnxruntime/src/ops/'] // signatures of tfjs and of ONNX
    const allowed = [
      'packages/base/src/key.ts', // two words of key, two of counter, as in the definition of Threefry
    ]
    expect(
      everywhere((file) =>
        [...foreign, ...allowed].some((path) => file.fileName.startsWith(path))
          ? []
          : nodesOf(file, isImplementation)
              .filter((node) => parameterCount(node) > MAX_PARAMETERS + (isExported(node) ? 0 : 1))
              .map((node) => `${place(file, node)}: ${parameterCount(node)}`),
      ),
    ).toEqual([])
  })

  it('has no boolean parameter, unless it asserts one', () => {
    const isBoolean = (node: ts.ParameterDeclaration): boolean => node.type?.kind === ts.SyntaxKind.BooleanKeyword
    const allowed = [
      'packages/testing/src/law.ts', // `require(holds, problem)`
      'packages/games/src/testing.ts', // likewise
    ]
    expect(
      everywhere((file) =>
        allowed.includes(file.fileName)
          ? []
          : nodesOf(file, ts.isParameter)
              .filter(isBoolean)
              .map((node) => place(file, node)),
      ),
    ).toEqual([])
  })
})

describe('every type', () => {
  it('is none of `any`', () => {
    const isAny = (node: ts.Node): node is ts.KeywordTypeNode => node.kind === ts.SyntaxKind.AnyKeyword
    expect(everywhere((file) => nodesOf(file, isAny).map((node) => place(file, node)))).toEqual([])
  })

  it('has read-only fields if others see it', () => {
    const engine = 'packages/tfjs-onnxruntime/src/onnxruntime/' // counts references and records graphs
    const isExportedField = (node: ts.PropertySignature): boolean =>
      ts.isInterfaceDeclaration(node.parent) &&
      node.parent.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) === true
    const isWritable = (node: ts.PropertySignature): boolean =>
      node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ReadonlyKeyword) !== true
    expect(
      everywhere((file) =>
        file.fileName.startsWith(engine)
          ? []
          : nodesOf(file, ts.isPropertySignature)
              .filter((node) => isExportedField(node) && isWritable(node))
              .map((node) => place(file, node)),
      ),
    ).toEqual([])
  })
})

describe('the kit of the tests', () => {
  it('registers no hook while it is loaded: a process of several test files loads it once, and only the first would have the hook', () => {
    const HOOKS = ['beforeAll', 'beforeEach', 'afterEach', 'afterAll']
    const perFile = ['test/kit/setup.ts'] // vitest loads it again for each file
    const loaded = readdirSync('test/kit')
      .map((name) => join('test/kit', name))
      .filter((path) => path.endsWith('.ts') && !perFile.includes(path))
      .map((path) => ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.ES2022, true))
    const isInFunction = (node: ts.Node): boolean => ts.findAncestor(node, isImplementation) !== undefined
    const hooks = loaded.flatMap((file) =>
      nodesOf(file, ts.isCallExpression)
        .filter((call) => HOOKS.includes(call.expression.getText()) && !isInFunction(call))
        .map((call) => place(file, call)),
    )
    expect(loaded.length).toBeGreaterThan(100)
    expect(hooks).toEqual([])
  })
})
