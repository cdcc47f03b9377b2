"""The lessons beside the page's views: one TOML file each, in the order of their names; folders in it translate them.

files    a folder of such files enters; lessons leave, or an error with file and line
"""
