/** The evaluator of expressions. */
import { templateWork } from './budget.js'
import { applyFilter } from './filters.js'
import { addTexts, filterResult } from './markup.js'
import { calculate, compared, sliceValue } from './operators.js'
import { derived, joinPrinted, ownText } from './origin.js'
import { lookUp, type Scope } from './scope.js'
import { stringMethod } from './strings.js'
import { TemplateError } from './templateError.js'
import { passes } from './tests.js'
import type { BinaryNode, CallNode, ComparisonNode, Expression, FilterName, MemberNode, TestNode } from './tree.js'
import {
  type Arguments,
  callable,
  type Dict,
  float,
  isCallable,
  isDict,
  isEqual,
  isList,
  isNamespace,
  isTruthy,
  isTuple,
  itemsOf,
  numberOf,
  type TemplateValue,
  type TracedArguments,
  type TracedValue,
  tuple,
  typeName,
  type ValueOrigin,
} from './value.js'

const CONSTANTS: ReadonlyMap<string, TemplateValue> = new Map<string, TemplateValue>([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['none', null],
  ['None', null],
])

/** Returns the name of an expression for error messages. */
const nameOf = (node: Expression): string => {
  if (node.type === 'Identifier') return node.value
  return node.type === 'MemberExpression' && !node.computed ? nameOf(node.property) : 'a value'
}

/** Methods that mutate their value. The sandbox that Transformers renders in refuses them. */
const CHANGING = new Set(['append', 'extend', 'insert', 'pop', 'remove', 'clear', 'update', 'setdefault', 'popitem'])

const dictMethod = (dict: Dict, name: string): TemplateValue => {
  switch (name) {
    case 'get':
      return callable(name, ({ positional: [key, absent = null] }) => (dict.has(key) ? dict.get(key) : absent))
    case 'items':
      return callable(name, () => [...dict].map(tuple))
    case 'keys':
      return callable(name, () => [...dict.keys()])
    case 'values':
      return callable(name, () => [...dict.values()])
    case 'copy':
      return callable(name, () => new Map(dict))
    default:
      return undefined
  }
}

const sequenceMethod = (items: readonly TemplateValue[], name: string): TemplateValue => {
  switch (name) {
    case 'index':
      return callable(name, ({ positional: [item] }) => {
        const at = items.findIndex((other) => isEqual(other, item))
        if (at === -1) throw new TemplateError('the item is not in the list')
        return at
      })
    case 'count':
      return callable(name, ({ positional: [item] }) => items.filter((other) => isEqual(other, item)).length)
    case 'copy':
      return callable(name, () => items)
    default:
      return undefined
  }
}

const methodOf = (object: TemplateValue, name: string): TemplateValue => {
  if (typeof object === 'string') return stringMethod(object, name)
  if ((isDict(object) || isList(object)) && CHANGING.has(name)) {
    return callable(name, () => {
      throw new TemplateError(`'${name}' of a ${typeName(object)} is not safely callable`)
    })
  }
  if (isDict(object)) return dictMethod(object, name)
  return isList(object) || isTuple(object) ? sequenceMethod(itemsOf(object), name) : undefined
}

const itemOf = (object: TemplateValue, key: TemplateValue): TemplateValue => {
  if (isDict(object)) return object.get(key)
  if (isNamespace(object)) return object.fields.get(String(key))
  const index = typeof key === 'number' || typeof key === 'boolean' ? numberOf(key) : undefined
  if (index === undefined || !(typeof object === 'string' || isList(object) || isTuple(object))) return undefined
  return itemsOf(object).at(index)
}

/**
 * Returns true for the role of a watched message. A role is the program's own word, like the
 * template: templates make control tokens of it.
 */
const isRole = (object: TemplateValue, key: TemplateValue, { run }: Scope): boolean =>
  key === 'role' && run.watched.has(object)

const memberOf = (object: TracedValue, key: TemplateValue, scope: Scope): TracedValue => {
  if (isNamespace(object.value)) {
    const value = object.value.fields.get(String(key))
    const origin = object.value.origins.get(String(key))
    return origin === undefined ? derived(value, [object.origin]) : { value, origin }
  }
  const value = itemOf(object.value, key)
  return isRole(object.value, key, scope) ? ownText(value) : derived(value, [object.origin])
}

const member = (node: MemberNode, scope: Scope): TracedValue => {
  const object = trace(node.object, scope)
  const { property } = node
  if (property.type === 'SliceExpression') {
    const bound = (part: Expression | undefined): TemplateValue =>
      part === undefined ? undefined : evaluate(part, scope)
    const bounds = [bound(property.start), bound(property.stop), bound(property.step)] as const
    return derived(sliceValue(object.value, bounds), [object.origin])
  }
  const key = node.computed || property.type !== 'Identifier' ? evaluate(property, scope) : property.value
  if (object.value === undefined) throw new TemplateError(`'${nameOf(node.object)}' is undefined`)
  const item = memberOf(object, key, scope)
  const method = typeof key === 'string' ? methodOf(object.value, key) : undefined
  const isEntry = item.value !== undefined || (isDict(object.value) && object.value.has(key))
  if (method === undefined || (node.computed && isEntry)) return item // `a[key]`: entries first
  return derived(method, [object.origin]) // `a.name`: methods first
}

const traceArguments = (nodes: readonly Expression[], scope: Scope): TracedArguments => {
  const positional: TracedValue[] = []
  const named = new Map<string, TracedValue>()
  for (const node of nodes) {
    if (node.type === 'KeywordArgumentExpression') named.set(node.key.value, trace(node.value, scope))
    else if (node.type === 'SpreadExpression') {
      const { value, origin } = trace(node.argument, scope)
      positional.push(...itemsOf(value).map((item) => derived(item, [origin])))
    } else if (node.type === 'KeywordSpreadExpression') {
      const { value: dict, origin } = trace(node.argument, scope)
      if (!isDict(dict)) throw new TemplateError(`argument after ** must be a mapping, not ${typeName(dict)}`)
      for (const [key, value] of dict) named.set(String(key), derived(value, [origin]))
    } else positional.push(trace(node, scope))
  }
  return { positional, named }
}

const valuesOf = ({ positional, named }: TracedArguments): Arguments => ({
  positional: positional.map(({ value }) => value),
  named: new Map([...named].map(([name, { value }]) => [name, value])),
})

const originsOf = ({ positional, named }: TracedArguments): readonly ValueOrigin[] =>
  [...positional, ...named.values()].map(({ origin }) => origin)

/** Calls a function. */
export const apply = (target: TracedValue, args: TracedArguments, name: string): TracedValue => {
  const { value, origin } = target
  if (!isCallable(value)) {
    const problem = value === undefined ? 'is undefined' : `is a ${typeName(value)}, which is not callable`
    throw new TemplateError(`'${name}' ${problem}`)
  }
  return value.trace === undefined
    ? derived(value.call(valuesOf(args)), [origin, ...originsOf(args)])
    : value.trace(args)
}

/** Evaluates the function of a call and its arguments. */
export const traceCall = (node: CallNode, scope: Scope): readonly [TracedValue, TracedArguments, string] => [
  trace(node.callee, scope),
  traceArguments(node.args, scope),
  nameOf(node.callee),
]

/** Applies a filter. */
export const filtered = (input: TracedValue, filter: FilterName, scope: Scope): TracedValue => {
  const callee = filter.type === 'Identifier' ? filter : filter.callee
  if (callee.type !== 'Identifier') throw new TemplateError('a filter must have a name')
  const args = traceArguments(filter.type === 'Identifier' ? [] : filter.args, scope)
  const result = applyFilter(callee.value, input.value, valuesOf(args))
  return filterResult(callee.value, input, derived(result, [input.origin, ...originsOf(args)]))
}

/** Checks a dict key that is written in a template. */
const keyOf = (key: TemplateValue): TemplateValue => {
  if (typeof key === 'object' && key !== null) throw new TemplateError(`a ${typeName(key)} as a key is not supported`)
  return key
}

/**
 * Evaluates a chain of comparisons. Operands after the first false comparison are not evaluated.
 */
const holds = ({ operand, rest }: ComparisonNode, scope: Scope): boolean => {
  let left = evaluate(operand, scope)
  return rest.every(({ operator, right: node }) => {
    const right = evaluate(node, scope)
    const isTrue = compared(operator, left, right)
    left = right
    return isTrue
  })
}

const isTest = ({ operand, negate, test, args }: TestNode, scope: Scope): boolean => {
  const { positional } = valuesOf(traceArguments(args, scope))
  return passes(test.value, evaluate(operand, scope), positional) !== negate
}

const unary = (operator: string, value: TemplateValue): TemplateValue => {
  if (operator === 'not') return !isTruthy(value)
  const number = numberOf(value)
  if (number === undefined) throw new TemplateError(`bad operand type for unary ${operator}: '${typeName(value)}'`)
  const result = operator === '-' ? -number : number
  return typeof value === 'object' ? float(result) : result
}

const traceBinary = (
  { operator: { value: operator }, left: first, right: second }: BinaryNode,
  scope: Scope,
): TracedValue => {
  const left = trace(first, scope)
  if (operator === 'and') return isTruthy(left.value) ? trace(second, scope) : left
  if (operator === 'or') return isTruthy(left.value) ? left : trace(second, scope)
  const right = trace(second, scope)
  const isText = typeof left.value === 'string' && typeof right.value === 'string'
  if (operator === '+' && isText) return addTexts(left, right)
  return operator === '~'
    ? joinPrinted(left, right)
    : derived(calculate(operator, left.value, right.value), [left.origin, right.origin])
}

/** Builds a list, a tuple or a dict of the template. */
const traceParts = (
  nodes: readonly Expression[],
  make: (items: readonly TemplateValue[]) => TemplateValue,
  scope: Scope,
): TracedValue => {
  const parts = nodes.map((node) => trace(node, scope))
  return derived(
    make(parts.map(({ value }) => value)),
    parts.map(({ origin }) => origin),
  )
}

const traceDict = (entries: readonly (readonly [Expression, Expression])[], scope: Scope): TracedValue =>
  traceParts(entries.flat(), (items) => new Map(entries.map((_, i) => [keyOf(items[2 * i]), items[2 * i + 1]])), scope)

/**
 * Evaluates an expression, with the origin of its value.
 *
 * Errors   throws TemplateError where Python's Jinja raises.
 */
export const trace = (node: Expression, scope: Scope): TracedValue => {
  templateWork.spend(1)
  const result = traced(node, scope)
  if (node.type !== 'Identifier' && typeof result.value === 'string') templateWork.spendCharacters(result.value.length)
  return result
}

const traced = (node: Expression, scope: Scope): TracedValue => {
  switch (node.type) {
    case 'Identifier':
      return CONSTANTS.has(node.value) ? ownText(CONSTANTS.get(node.value)) : lookUp(scope, node.value)
    case 'StringLiteral':
    case 'IntegerLiteral':
      return ownText(node.value)
    case 'FloatLiteral':
      return ownText(float(node.value))
    case 'ArrayLiteral':
      return traceParts(node.value, (items) => items, scope)
    case 'TupleLiteral':
      return traceParts(node.value, tuple, scope)
    case 'ObjectLiteral':
      return traceDict(node.value, scope)
    case 'MemberExpression':
      return member(node, scope)
    case 'CallExpression':
      return apply(...traceCall(node, scope))
    case 'FilterExpression':
      return filtered(trace(node.operand, scope), node.filter, scope)
    case 'TestExpression':
      return ownText(isTest(node, scope))
    case 'Comparison':
      return ownText(holds(node, scope))
    case 'UnaryExpression':
      return ownText(unary(node.operator.value, evaluate(node.argument, scope)))
    case 'BinaryExpression':
      return traceBinary(node, scope)
    case 'Ternary':
      if (isTruthy(evaluate(node.condition, scope))) return trace(node.trueExpr, scope)
      return node.falseExpr === undefined ? ownText(undefined) : trace(node.falseExpr, scope)
    default:
      throw new TemplateError(`a ${node.type} is not a value`)
  }
}

/** Evaluates an expression without its origin. */
export const evaluate = (node: Expression, scope: Scope): TemplateValue => trace(node, scope).value
