/**
 * The two programs that check an answer by assertions: one runs the answer, the other one the
 * tests.
 *
 * They run in separate sandboxes and communicate in lines of JSON: which function to call with
 * which values, and the result. The answer's side can only send values. It has no verdict to forge,
 * and it never receives the expected result.
 */

/**
 * The code of both sides: values as JSON. An object that is not a plain value stays where it is and
 * is referred to by a number.
 */
const SHARED = `
import builtins, json, os, sys
told = os.fdopen(os.dup(1), 'w', encoding='utf-8')
asked = os.fdopen(os.dup(0), 'r', encoding='utf-8')
empty = os.open(os.devnull, os.O_RDWR)
for number in range(3): os.dup2(empty, number)
kept = []

def say(message):
    told.write(json.dumps(message) + '\\n')
    told.flush()

def hear():
    line = asked.readline()
    if line == '': os._exit(0)
    return json.loads(line)

class Remote:
    __slots__ = ('_number',)
    __hash__ = object.__hash__
    __contains__ = None
    def __init__(self, number): object.__setattr__(self, '_number', number)
    def __bool__(self): return True
    def __call__(self, *args, **named): return request('call', self, args, named)
    def __getattr__(self, name):
        if name.startswith('__'): raise AttributeError(name)
        return request('get', self, (name,))
    def __setattr__(self, name, value): request('set', self, (name, value))
    def __eq__(self, other): return isinstance(other, Remote) and request('same', self, (other,)) is True
    def __len__(self): return request('length', self)
    def __getitem__(self, key): return request('item', self, (key,))
    def __setitem__(self, key, value): request('put', self, (key, value))
    def __iter__(self): return request('items', self)
    def __next__(self): return request('next', self)
    def __str__(self): return str(request('text', self))

def wired(value):
    if isinstance(value, Remote): return {'yours': value._number}
    if value is None or isinstance(value, bool): return value
    if isinstance(value, int): return {'int': hex(value)}
    if isinstance(value, float): return float(value)
    if isinstance(value, str): return str.__str__(value)
    if isinstance(value, complex): return {'complex': [value.real, value.imag]}
    if isinstance(value, (bytes, bytearray)): return {type(value).__name__: bytes(value).hex()}
    if isinstance(value, dict): return {'dict': [[wired(key), wired(item)] for key, item in value.items()]}
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind): return {kind.__name__: [wired(item) for item in value]}
    return export(value)

def export(value):
    kept.append(value)
    return {'mine': len(kept) - 1}

def unwired(data):
    if not isinstance(data, dict): return data
    (kind, value), = data.items()
    if kind == 'mine': return Remote(value)
    if kind == 'yours': return kept[value]
    if kind == 'int': return int(value, 16)
    if kind == 'complex': return complex(*value)
    if kind in ('bytes', 'bytearray'): return getattr(builtins, kind).fromhex(value)
    if kind == 'dict': return {unwired(key): unwired(item) for key, item in value}
    return {'list': list, 'tuple': tuple, 'set': set, 'frozenset': frozenset}[kind](map(unwired, value))

def perform(message):
    does = OPERATIONS[message['does']]
    named = {name: unwired(value) for name, value in message['named'].items()}
    return does(kept[message['on']], *map(unwired, message['args']), **named)

def reply(message):
    try:
        answer = {'gives': wired(perform(message))}
    except BaseException as error:
        answer = {'raises': [kind.__name__ for kind in type(error).__mro__], 'text': str(error)[:500]}
    say(answer)

ENDINGS = (StopIteration, StopAsyncIteration)

def raised(names, text, does):
    for name in names:
        kind = getattr(builtins, name, None)
        if not isinstance(kind, type) or not issubclass(kind, Exception): continue
        # Only \`next\` may end a loop: in \`all(map(f, cases))\` a call that does would skip every other case.
        if issubclass(kind, ENDINGS) and does != 'next': return RuntimeError(f'{name} raised by {does}')
        return kind(text)
    return RuntimeError(text)

def request(does, on, args=(), named={}):
    say({
        'does': does, 'on': on._number, 'args': [wired(arg) for arg in args],
        'named': {name: wired(value) for name, value in named.items()},
    })
    while True:
        message = hear()
        if 'does' in message: reply(message)
        elif 'raises' in message: raise raised(message['raises'], message['text'], does)
        else: return unwired(message['gives'])
`

/** Loads the answer, lists its names, and executes the requests of the other side. */
export const ANSWER_PROGRAM = `${SHARED}
OPERATIONS = {
    'call': lambda target, *args, **named: target(*args, **named),
    'get': getattr, 'set': setattr, 'same': lambda a, b: bool(a == b), 'length': len,
    'item': lambda target, key: target[key], 'put': lambda target, key, value: target.__setitem__(key, value),
    'items': iter, 'next': next, 'text': str,
}
def load(code):
    module = type(sys)('__main__')
    sys.modules['__main__'] = module
    exec(compile(code, 'answer.py', 'exec'), vars(module))
    names = {}
    for name, value in list(vars(module).items()):
        if name.startswith('__'): continue
        names[name] = {'module': value.__name__} if isinstance(value, type(sys)) else wired(value)
    return names
try:
    told_names = {'names': load(hear()['code'])}
except BaseException as error:
    told_names = {'failed': type(error).__name__}
say(told_names)
while True: reply(hear())
`

/**
 * Runs a test against the names of the answer, and reports whether it holds. Names of Python and of
 * its library are the test's own: an answer that defines \`abs\` or \`math\` changes nothing,
 * unless the test is about it.
 *
 * The test runs as \`__main__\`. Each run of unittest in it must run at least one test case, and
 * all must succeed. Test cases that are defined but not run are run at its end.
 */
export const TEST_PROGRAM = `${SHARED}
OPERATIONS = {'call': lambda target, *args, **named: target(*args, **named)}
export_any = export
def export(value):
    if not callable(value): raise TypeError('the test passes a value that cannot be sent: ' + type(value).__name__)
    return export_any(value)
def namespace(names, subjects):
    space = {}
    for name, value in names.items():
        if name.startswith('__'): continue
        is_module = isinstance(value, dict) and 'module' in value
        if name in subjects and not is_module: space[name] = unwired(value)
        elif subjects: continue
        elif is_module and value['module'].split('.')[0] in sys.stdlib_module_names:
            space[name] = __import__(value['module'], fromlist=['_'])
        elif not is_module and not hasattr(builtins, name) and name not in sys.stdlib_module_names:
            space[name] = unwired(value)
    return space
results = []

def watch_unittest():
    import unittest
    create = unittest.TestResult.__init__
    def created(self, *args, **named):
        results.append(self)
        create(self, *args, **named)
    unittest.TestResult.__init__ = created
    return unittest

def run(test, names, subjects):
    unittest = watch_unittest() if 'unittest' in test else None
    module = type(sys)('__main__')
    vars(module).update(namespace(names, subjects))
    sys.modules['__main__'] = module
    sys.argv = ['test.py']
    try:
        exec(compile(test, 'test.py', 'exec'), vars(module))
    except SystemExit as ended:
        if not results or ended.code not in (None, 0): return False
    if unittest is not None and not results:
        unittest.TextTestRunner(stream=sys.stderr).run(unittest.defaultTestLoader.loadTestsFromModule(module))
        if results[-1].testsRun == 0: return True # it only mentions unittest
    return all(result.wasSuccessful() and result.testsRun > len(result.skipped) for result in results)

task = hear()
try:
    verdict = run(task['test'], hear()['names'], task['subjects'])
except BaseException:
    verdict = False
say({'holds': verdict})
`
