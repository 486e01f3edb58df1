/** The interpreter of statements, which write to a sink and set names in a scope. */
import { templateWork } from './budget.js'
import { apply, evaluate, filtered, trace, traceCall } from './expression.js'
import { derived, given, ownText, printed, tracedText } from './origin.js'
import { emptySink, inside, type Scope, type TemplateWriter } from './scope.js'
import { TemplateError } from './templateError.js'
import type {
  CallBlockNode,
  Expression,
  FilterName,
  ForNode,
  IdentifierNode,
  KeywordNode,
  Parameters,
  Statement,
} from './tree.js'
import {
  type Arguments,
  callable,
  isNamespace,
  isTruthy,
  itemsOf,
  type TemplateValue,
  type TracedArguments,
  type TracedValue,
  type ValueOrigin,
} from './value.js'

/** The cost of a loop iteration or a macro call, which creates a scope with about twelve names. */
const SCOPE_STEPS = 10

type Signal = 'go on' | 'break' | 'continue'

/** Returns the text that statements write. */
const written = (nodes: readonly Statement[], scope: Scope): TracedValue => {
  const sink = emptySink()
  execute(nodes, scope, sink)
  return tracedText(sink.text(), sink.given())
}

const write = (result: TracedValue, sink: TemplateWriter): void => {
  const { text, given: ranges } = printed(result)
  sink.write(text, ranges)
}

const assign = (target: Expression, assigned: TracedValue, scope: Scope): void => {
  const { value, origin } = assigned
  if (target.type === 'Identifier') scope.variables.set(target.value, assigned)
  else if (target.type === 'TupleLiteral') {
    const items = itemsOf(value)
    if (items.length !== target.value.length) {
      throw new TemplateError(`cannot unpack ${items.length} values into ${target.value.length} names`)
    }
    for (const [i, part] of target.value.entries()) assign(part, derived(items[i], [origin]), scope)
  } else if (target.type === 'MemberExpression' && target.property.type === 'Identifier') {
    const object = evaluate(target.object, scope)
    if (!isNamespace(object)) throw new TemplateError('cannot assign attribute on non-namespace object')
    object.fields.set(target.property.value, value)
    object.origins.set(target.property.value, origin)
  } else throw new TemplateError(`cannot assign to a ${target.type}`)
}

/** Returns the text that statements write, after a row of filters. */
const writtenThrough = (
  { filters, body }: { readonly filters: readonly FilterName[]; readonly body: readonly Statement[] },
  scope: Scope,
): TracedValue => filters.reduce((result, filter) => filtered(result, filter, scope), written(body, inside(scope)))

const loopValue = (items: readonly TemplateValue[], i: number): TemplateValue =>
  new Map<TemplateValue, TemplateValue>([
    ['index', i + 1],
    ['index0', i],
    ['revindex', items.length - i],
    ['revindex0', items.length - i - 1],
    ['first', i === 0],
    ['last', i === items.length - 1],
    ['length', items.length],
    ['depth', 1],
    ['depth0', 0],
    ['previtem', items[i - 1]],
    ['nextitem', items[i + 1]],
    ['cycle', callable('cycle', ({ positional }) => positional[i % positional.length])],
  ])

/**
 * Returns the items of a loop. The condition of `for ... if` is evaluated first, with the loop
 * variable but without `loop`.
 */
const loopItems = ({ iterable, loopvar, condition }: ForNode, scope: Scope): readonly TracedValue[] => {
  const { value, origin } = trace(iterable, scope)
  const found = itemsOf(value)
  templateWork.spend(found.length)
  const items = found.map((item) => derived(item, [origin]))
  if (condition === undefined) return items
  return items.filter((item) => {
    const one = inside(scope)
    assign(loopvar, item, one)
    return isTruthy(evaluate(condition, one))
  })
}

/**
 * Runs the body for each item in a scope of its own, and records the text that watched items wrote
 * to the result.
 */
const loop = (node: ForNode, scope: Scope, sink: TemplateWriter): void => {
  const items = loopItems(node, scope)
  if (items.length === 0) execute(node.defaultBlock, inside(scope), sink)
  const { run } = scope
  const values = items.map(({ value }) => value)
  const { origin } = derived(
    values,
    items.map((item) => item.origin),
  )
  for (const [i, item] of items.entries()) {
    templateWork.spend(SCOPE_STEPS)
    const one = inside(scope)
    one.variables.set('loop', derived(loopValue(values, i), [origin]))
    assign(node.loopvar, item, one)
    const start = sink.text().length
    const signal = execute(node.body, one, sink)
    const watched = sink === run.main ? run.watched.get(item.value) : undefined
    const end = sink.text().length
    if (watched !== undefined && end > start) run.items.push({ item: watched, start, end })
    if (signal === 'break') break
  }
}

const parameterName = (parameter: IdentifierNode | KeywordNode): string =>
  parameter.type === 'Identifier' ? parameter.value : parameter.key.value

/** Binds arguments or defaults to the parameters of a macro. */
const bind = (parameters: Parameters, { positional, named }: TracedArguments, scope: Scope): void => {
  const names = parameters.map(parameterName)
  for (const [i, parameter] of parameters.entries()) {
    const argument = positional[i] ?? named.get(names[i]!)
    const absent = parameter.type === 'Identifier' ? ownText(undefined) : trace(parameter.value, scope)
    scope.variables.set(names[i]!, argument ?? absent)
  }
  const further = positional.slice(parameters.length)
  const rest = [...named].filter(([name]) => !names.includes(name) && name !== 'caller')
  const originsOf = (all: readonly TracedValue[]): readonly ValueOrigin[] => all.map(({ origin }) => origin)
  scope.variables.set(
    'varargs',
    derived(
      further.map(({ value }) => value),
      originsOf(further),
    ),
  )
  const kwargs = new Map<TemplateValue, TemplateValue>(rest.map(([name, { value }]) => [name, value]))
  scope.variables.set('kwargs', derived(kwargs, originsOf(rest.map(([, item]) => item))))
  const caller = named.get('caller')
  if (caller !== undefined && !names.includes('caller')) scope.variables.set('caller', caller)
}

const macro =
  (name: string, parameters: Parameters, body: () => readonly Statement[]) =>
  (scope: Scope): TracedValue => {
    const run = (args: TracedArguments): TracedValue => {
      templateWork.spend(SCOPE_STEPS)
      const inner = inside(scope)
      bind(parameters, args, inner)
      return written(body(), inner)
    }
    const untraced = ({ positional, named }: Arguments): TemplateValue =>
      run({ positional: positional.map(given), named: new Map([...named].map(([key, value]) => [key, given(value)])) })
        .value
    return ownText({ ...callable(name, untraced), trace: run })
  }

const callBlock = ({ call, callerArgs, body }: CallBlockNode, scope: Scope, sink: TemplateWriter): void => {
  const [target, args, name] = traceCall(call, scope)
  const caller = macro('caller', callerArgs, () => body)(scope)
  write(apply(target, { ...args, named: new Map([...args.named, ['caller', caller]]) }, name), sink)
}

/** Runs a `generation` block and records its range. */
const generation = (body: readonly Statement[], scope: Scope, sink: TemplateWriter): void => {
  const { main, generations } = scope.run
  const { text, given: ranges } = printed(written(body, inside(scope)))
  const start = main.text().length
  generations.push({ start, end: start + text.length, isNested: sink !== main })
  sink.write(text, ranges)
}

/** Runs statements. Errors: throws TemplateError where Python's Jinja raises. */
export const execute = (nodes: readonly Statement[], scope: Scope, sink: TemplateWriter): Signal => {
  for (const node of nodes) {
    const signal = executeOne(node, scope, sink)
    if (signal !== 'go on') return signal
  }
  return 'go on'
}

const executeOne = (node: Statement, scope: Scope, sink: TemplateWriter): Signal => {
  templateWork.spend(1)
  switch (node.type) {
    case 'If':
      return execute(isTruthy(evaluate(node.test, scope)) ? node.body : node.alternate, scope, sink)
    case 'For':
      loop(node, scope, sink)
      return 'go on'
    case 'Break':
      return 'break'
    case 'Continue':
      return 'continue'
    case 'Comment':
      return 'go on'
    case 'Text':
      sink.write(node.value, [])
      return 'go on'
    case 'Output':
      write(trace(node.value, scope), sink)
      return 'go on'
    case 'Set':
      assign(node.assignee, trace(node.value, scope), scope)
      return 'go on'
    case 'SetBlock':
      assign(node.assignee, writtenThrough(node, scope), scope)
      return 'go on'
    case 'Macro':
      scope.variables.set(node.name, macro(node.name, node.args, () => node.body)(scope))
      return 'go on'
    case 'Generation':
      generation(node.body, scope, sink)
      return 'go on'
    case 'CallStatement':
      callBlock(node, scope, sink)
      return 'go on'
    case 'FilterStatement':
      write(writtenThrough(node, scope), sink)
      return 'go on'
  }
}
