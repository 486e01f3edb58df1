/**
 * Tools from documented functions. The schema comes from the function's types, and the descriptions
 * come from its JSDoc.
 *
 * At run time a function has neither types nor comments, so its source text is parsed by the
 * TypeScript compiler, an optional package. A parser of our own would cover only a part of the
 * language.
 */
import { checkOptions, optionalPackage, type PackageFailure } from '@tandem-rl/base'
import { importPackage } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { DOCUMENTED_TOOL_OPTIONS } from '../optionKinds.js'
import { type Tool, tool } from './tool.js'

/** The exports of `typescript`. @internal */
type Compiler = typeof import('typescript')

/** The failure of a function whose source lacks information for a tool. */
export interface DocumentedToolFailure {
  readonly _tag: 'DocumentedToolFailure'
  readonly reason: string
}

export interface DocumentedToolOptions {
  /**
   * The function, or a method of `self`. Its name is looked up in the source and becomes the name
   * of the tool.
   */
  readonly run: (...args: never) => string | Promise<string>
  /** The object that a method is called on: the `this` of `run`. Default: none. */
  readonly self?: object
  /** The source file of the function: TypeScript, or JavaScript with types in JSDoc. */
  readonly source: string
  /** Overrides the name of the tool. */
  readonly name?: string
  /** Resolves with the compiler. Default: imports `typescript`. */
  readonly load?: () => Promise<unknown>
}

type FunctionNode = import('typescript').SignatureDeclaration
type TypeNode = import('typescript').TypeNode

/** Finds a function in a source by its name. */
const functionIn = (ts: Compiler, source: string, name: string): FunctionNode | undefined => {
  const file = ts.createSourceFile('tool.ts', source, ts.ScriptTarget.Latest, true)
  let found: FunctionNode | undefined
  const visit = (node: import('typescript').Node): void => {
    if (found !== undefined) return
    const isNamed = (id: import('typescript').Node | undefined): boolean => id !== undefined && id.getText() === name
    if ((ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node)) && isNamed(node.name)) found = node
    else if ((ts.isVariableDeclaration(node) || ts.isPropertyAssignment(node)) && isNamed(node.name)) {
      const { initializer } = node
      if (initializer !== undefined && (ts.isArrowFunction(initializer) || ts.isFunctionExpression(initializer)))
        found = initializer
    }
    ts.forEachChild(node, visit)
  }
  visit(file)
  return found
}

/** Returns the schema of a type, or `Left` with the text of a type that has no schema. */
const schemaOf = (ts: Compiler, type: TypeNode): E.Either<string, z.ZodType> => {
  switch (type.kind) {
    case ts.SyntaxKind.StringKeyword:
      return E.right(z.string())
    case ts.SyntaxKind.NumberKeyword:
      return E.right(z.number())
    case ts.SyntaxKind.BooleanKeyword:
      return E.right(z.boolean())
  }
  if (ts.isParenthesizedTypeNode(type)) return schemaOf(ts, type.type)
  if (ts.isTypeOperatorNode(type)) return schemaOf(ts, type.type) // `readonly T[]`
  if (ts.isArrayTypeNode(type)) return E.map((item: z.ZodType) => z.array(item))(schemaOf(ts, type.elementType))
  if (ts.isLiteralTypeNode(type)) {
    const { literal } = type
    if (ts.isStringLiteral(literal)) return E.right(z.literal(literal.text))
    if (ts.isNumericLiteral(literal)) return E.right(z.literal(Number(literal.text)))
  }
  if (ts.isUnionTypeNode(type))
    return E.map((members: readonly z.ZodType[]) => z.union(members))(
      E.sequenceArray(type.types.map((member) => schemaOf(ts, member))),
    )
  if (ts.isTypeLiteralNode(type)) {
    const fields = type.members.map((member): E.Either<string, readonly [string, z.ZodType]> => {
      if (!ts.isPropertySignature(member) || member.type === undefined) return E.left(member.getText())
      const isOptional = member.questionToken !== undefined
      return E.map((field: z.ZodType) => [member.name.getText(), isOptional ? field.optional() : field] as const)(
        schemaOf(ts, member.type),
      )
    })
    return E.map((entries: readonly (readonly [string, z.ZodType])[]) => z.strictObject(Object.fromEntries(entries)))(
      E.sequenceArray(fields),
    )
  }
  return E.left(type.getText())
}

/** The description and the parameters of a function. */
interface Signature {
  readonly description: string
  readonly parameters: readonly (readonly [name: string, schema: z.ZodType])[]
}

const signatureOf = (ts: Compiler, node: FunctionNode): E.Either<string, Signature> => {
  const [comment] = ts.getJSDocCommentsAndTags(node).filter(ts.isJSDoc)
  const description = comment === undefined ? '' : (ts.getTextOfJSDocComment(comment.comment) ?? '')
  if (description === '') return E.left('it has no description in JSDoc')
  const parameters = node.parameters.map((parameter): E.Either<string, readonly [string, z.ZodType]> => {
    const name = parameter.name.getText()
    if (!ts.isIdentifier(parameter.name)) return E.left(`its parameter ${name} has no name`)
    const type = parameter.type ?? ts.getJSDocType(parameter)
    if (type === undefined) return E.left(`its parameter '${name}' has no type`)
    const reported = ts.getTextOfJSDocComment(ts.getJSDocParameterTags(parameter)[0]?.comment)
    const isOptional = parameter.questionToken !== undefined || parameter.initializer !== undefined
    return pipe(
      schemaOf(ts, type),
      E.bimap(
        (text) => `the type of its parameter '${name}' has no JSON schema: ${text}`,
        (schema) => {
          const described = reported === undefined ? schema : schema.describe(reported.replace(/^-\s*/, ''))
          return [name, isOptional ? described.optional() : described] as const
        },
      ),
    )
  })
  return E.map((all: Signature['parameters']) => ({ description, parameters: all }))(E.sequenceArray(parameters))
}

/** TypeScript 7 is a native program, and its package exports the version alone. */
const hasCompilerApi = (ts: Partial<Compiler>): boolean => ts.createSourceFile !== undefined

const withoutApi = (version: string): string =>
  `TypeScript ${version} has no compiler API: npm install @typescript/typescript6, and set the option load: () => import('@typescript/typescript6')`

/**
 * Makes a tool from a function with types and JSDoc. Its parameters become arguments with the same
 * names, types (string, number, boolean, literals, unions, lists, records) and `@param`
 * descriptions. The function returns the observation. An exception becomes an error observation.
 * A method that uses `this` needs its object: `{ run: agent.look, self: agent, source }`, or `run:
 * agent.look.bind(agent)`.
 *
 * Errors   `Left(PackageFailure)` if `typescript` is not installed; `Left(DocumentedToolFailure)`
 *          if the source has no such function, if it lacks a description or a type with a JSON
 *          schema, or if the installed TypeScript is version 7, which has no compiler API.
 * Source   AgentFly `@tool`, whose schemas leak Python types that JSON does not have.
 *
 * @example
 * typeof documentedTool({ run: (n) => String(2 * n), source: '' }) // 'function'
 */
export const documentedTool = (
  options: DocumentedToolOptions,
): TE.TaskEither<PackageFailure | DocumentedToolFailure, Tool> => {
  checkOptions('documentedTool', options, DOCUMENTED_TOOL_OPTIONS)
  const { run, self, source, load = () => importPackage('typescript', import.meta) } = options
  const call = run.bind(self) as (...args: readonly unknown[]) => string | Promise<string> // arguments are checked by their schemas
  const ownName = run.name.replace(/^bound /, '') // of a method that was bound to its object
  return pipe(
    optionalPackage('typescript', 'a tool from JSDoc', load as () => Promise<{ readonly default: Compiler }>), // cast: what the package exports
    TE.chainW(({ default: ts }) => {
      const node = hasCompilerApi(ts)
        ? E.fromNullable('it is not in the source')(functionIn(ts, source, ownName))
        : E.left(withoutApi(ts.version))
      const signature = E.chain((found: FunctionNode) => signatureOf(ts, found))(node)
      return TE.fromEither(
        E.mapLeft(
          (reason: string): DocumentedToolFailure => ({
            _tag: 'DocumentedToolFailure',
            reason: `the function '${ownName}': ${reason}`,
          }),
        )(signature),
      )
    }),
    TE.map(({ description, parameters }) =>
      tool({
        name: options.name ?? ownName,
        description,
        parameters: Object.fromEntries(parameters) as z.ZodRawShape, // zod's own schemas
        initial: null,
        run: async (args) => {
          const given: Readonly<Record<string, unknown>> = { ...args }
          return { content: await call(...parameters.map(([name]) => given[name])), state: null }
        },
      }),
    ),
  )
}
